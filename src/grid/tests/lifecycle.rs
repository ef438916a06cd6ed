//! A grid exists exactly when its import ended well.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::grid::lock::Lock;
use crate::grid::{build, gc, list, remove};
use crate::progress::Progress;

fn ring(vertices: u64) -> MemorySource {
    let pairs: Vec<_> = (0..vertices).map(|id| (id, (id + 1) % vertices)).collect();
    MemorySource::new(VertexSet::Range, &pairs)
}

/// All files below a folder but lock files.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().is_file() && entry.file_name() != ".lock");
    files.map(walkdir::DirEntry::into_path).collect()
}

fn on_devices(folder: &Path, ssds: u32) -> Setup {
    let mut setup = Setup::default();
    setup.storage.ssds = ssds;
    setup.storage.devices = (0..ssds).map(|device| folder.join(format!("ssd{device}"))).collect();
    setup.storage.devices.iter().for_each(|device| fs::create_dir(device).unwrap());
    setup
}

#[test]
fn a_grid_is_found_again_and_only_for_what_it_was_built_from() {
    let data = tempfile::tempdir().unwrap();
    let setup = Setup::default();
    assert!(setup.open(data.path()).is_none());
    let grid = setup.build(data.path(), &ring(100)).unwrap();
    let found = setup.open(data.path()).unwrap();
    assert_eq!(found.manifest, grid.manifest);
    // Building again returns what is there.
    assert_eq!(setup.build(data.path(), &ring(100)).unwrap().manifest.grid_id, grid.manifest.grid_id);
    let other = LayoutRequest { fingerprint: "f2", ..setup.request() };
    assert!(crate::grid::open(data.path(), &other).unwrap().is_none());
    let mut wider = setup.clone();
    wider.grid.source_window = Auto::Value(8);
    assert!(wider.open(data.path()).is_none());
    fs::remove_file(grid.paths.manifest()).unwrap();
    assert!(setup.open(data.path()).is_none());
    let again = setup.build(data.path(), &ring(100)).unwrap();
    assert_ne!(again.manifest.grid_id, grid.manifest.grid_id);
}

#[test]
fn a_missing_cut_or_foreign_part_means_not_built() {
    let data = tempfile::tempdir().unwrap();
    let mut setup = Setup::default();
    setup.storage.ssds = 2;
    for damage in 0..4 {
        let grid = setup.build(data.path(), &ring(100_000)).unwrap();
        verify(&grid).unwrap();
        let part = &grid.paths.parts[1];
        let bytes = fs::read(part).unwrap();
        match damage {
            0 => fs::remove_file(part).unwrap(),
            1 => fs::write(part, &bytes[1..]).unwrap(),
            2 => fs::write(part, vec![0; bytes.len()]).unwrap(),
            _ => fs::remove_file(grid.paths.degrees()).unwrap(),
        }
        assert!(setup.open(data.path()).is_none(), "{damage}");
    }
}

#[test]
fn devices_hold_the_edges_and_get_everything_back() {
    let folder = tempfile::tempdir().unwrap();
    let (data, setup) = (folder.path().join("data"), on_devices(folder.path(), 3));
    let grid = setup.build(&data, &ring(200_000)).unwrap();
    verify(&grid).unwrap();
    assert!(files(&data).iter().all(|file| file.extension().unwrap() != "ioc"));
    assert!(
        grid.paths.parts.iter().zip(&setup.storage.devices).all(|(part, device)| part.starts_with(device))
    );
    let layout = list(&data).unwrap().remove(0);
    assert!(layout.bytes > 200_000 * 8 && layout.grid.as_ref().unwrap().manifest == grid.manifest);
    let in_use = layout.grid.as_ref().unwrap().hold();
    assert!(in_use.is_some());
    assert!(matches!(remove(&data, "g", &layout.key), Err(GridError::InUse { .. })), "a run reads it");
    assert!(list(&data).unwrap()[0].grid.is_some());
    drop(in_use);
    assert_eq!(remove(&data, "g", &layout.key).unwrap(), layout.bytes);
    assert!(list(&data).unwrap().is_empty() && !data.join("g").exists());
    assert!(setup.storage.devices.iter().all(|device| fs::read_dir(device).unwrap().next().is_none()));
    assert_eq!(remove(&data, "g", &layout.key).unwrap(), 0);
}

#[test]
fn data_directories_that_share_devices_do_not_share_files() {
    let folder = tempfile::tempdir().unwrap();
    let setup = on_devices(folder.path(), 2);
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let first = setup.build(&one, &ring(1000)).unwrap();
    setup.build(&two, &ring(1000)).unwrap();
    verify(&first).unwrap();
    let key = list(&two).unwrap().remove(0).key;
    remove(&two, "g", &key).unwrap();
    verify(&setup.open(&one).unwrap()).unwrap();
}

#[test]
fn a_device_that_is_not_mounted_is_an_error_and_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (data, setup) = (folder.path().join("data"), on_devices(folder.path(), 2));
    fs::remove_dir(folder.path().join("ssd1")).unwrap();
    let error = setup.build(&data, &ring(1000)).unwrap_err();
    assert!(error.to_string().contains("ssd1 of storage.devices is no directory"), "{error}");
    assert!(!folder.path().join("ssd1").exists() && files(folder.path()).is_empty());
}

/// Raises the interrupt at the so-manieth call of any kind.
struct StopAt<'a> {
    interrupt: &'a Interrupt,
    left: AtomicUsize,
}

impl StopAt<'_> {
    fn count(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.interrupt.raise();
        }
    }
}

impl Progress for StopAt<'_> {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {
        self.count();
    }
    fn advance(&self, _amount: u64) {
        self.count();
    }
    fn end(&self) {
        self.count();
    }
    fn note(&self, _text: &str) {}
}

#[test]
fn an_interrupt_at_any_stage_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (data, mut setup) = (folder.path().join("data"), on_devices(folder.path(), 2));
    setup.limits.segment_edges = 5000;
    let mut source = ring(100_000);
    source.vertices = VertexSet::Seen;
    let mut interrupted = 0;
    for left in 1.. {
        let interrupt = Interrupt::new();
        let progress = StopAt { interrupt: &interrupt, left: AtomicUsize::new(left) };
        let context = Context { threads: 2, interrupt: &interrupt, progress: &progress };
        match build_within(&data, &setup.request(), &source, None, MEMORY, setup.limits, context) {
            Err(GridError::Interrupted) => interrupted += 1,
            Err(other) => panic!("{other}"),
            // The last call of all comes when nothing is left to stop.
            Ok(grid) => {
                verify(&grid).unwrap();
                break;
            }
        }
        assert!(setup.open(&data).is_none());
        assert_eq!(files(folder.path()), Vec::<PathBuf>::new(), "after {left}");
    }
    assert!(interrupted > 10, "{interrupted}");
}

#[test]
fn what_a_killed_import_leaves_is_not_trusted_and_collected() {
    let folder = tempfile::tempdir().unwrap();
    let (data, setup) = (folder.path().join("data"), on_devices(folder.path(), 2));
    let grid = setup.build(&data, &ring(1000)).unwrap();
    let mut other = Setup::default();
    other.grid.source_window = Auto::Value(16);
    let whole = other.build(&data, &ring(1000)).unwrap();
    fs::remove_file(grid.paths.manifest()).unwrap();
    fs::write(grid.paths.dir.join("manifest.json.tmp"), "{").unwrap();
    let foreign = grid.paths.parts[0].with_file_name("notes.txt");
    fs::write(&foreign, "mine").unwrap();
    let collected = gc(&data, &[], |_| true).unwrap();
    assert!(collected.layouts == 1 && collected.bytes > 64, "{collected:?}");
    assert!(!grid.paths.dir.exists() && !grid.paths.parts[1].parent().unwrap().exists());
    // What somebody else put there stays.
    assert!(foreign.exists() && !grid.paths.parts[0].exists());
    verify(&whole).unwrap();
    assert_eq!(gc(&data, &[], |_| false).unwrap().layouts, 1);
    assert!(list(&data).unwrap().is_empty());
}

#[test]
fn gc_leaves_alone_what_is_not_ours_or_being_imported() {
    let data = tempfile::tempdir().unwrap();
    let downloads = data.path().join("downloads/g0123");
    fs::create_dir_all(&downloads).unwrap();
    fs::write(downloads.join("edges.txt"), "1 2").unwrap();
    Setup::default().build(data.path(), &ring(10)).unwrap();
    let folder = data.path().join("g");
    let lock = Lock::try_acquire(&folder).unwrap().unwrap();
    assert!(Lock::try_acquire(&folder).unwrap().is_none());
    let collected = gc(data.path(), &[], |_| false).unwrap();
    assert_eq!((collected.layouts, &collected.busy[..]), (0, &["g".to_owned()][..]));
    let key = list(data.path()).unwrap().remove(0).key;
    assert!(matches!(remove(data.path(), "g", &key), Err(GridError::Busy { .. })));
    drop(lock);
    assert_eq!(gc(data.path(), &[], |_| false).unwrap().layouts, 1);
    assert!(downloads.join("edges.txt").exists() && !folder.exists());
}

#[test]
fn two_imports_at_once_make_one_grid() {
    let data = tempfile::tempdir().unwrap();
    let setup = Setup::default();
    let source = ring(100_000);
    let ids: Vec<u64> = std::thread::scope(|scope| {
        let build = || setup.build(data.path(), &source).unwrap().manifest.grid_id;
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(build)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
}

#[test]
fn bad_input_is_an_error_that_leaves_nothing() {
    let data = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new();
    let context = Context { threads: 2, interrupt: &interrupt, progress: &Silent };
    let setup = Setup::default();
    let try_import = |request: &LayoutRequest<'_>, source: &MemorySource, expected, memory| {
        let error = build(data.path(), request, source, expected, memory, context).unwrap_err().to_string();
        assert!(files(data.path()).is_empty(), "{error}");
        error
    };
    let weight = |weight| {
        let mut source = ring(100);
        source.edges[50].weight = weight;
        source
    };
    let given = |n, pairs: &[_]| MemorySource::new(VertexSet::Given(n), pairs);
    let request = setup.request();
    let mut odd = setup.storage.clone();
    odd.stripe = 100_000;
    let mut lone = setup.storage.clone();
    lone.devices = vec![data.path().to_owned(); 2];
    let errors = [
        try_import(&LayoutRequest { dataset: "../x", ..request }, &ring(3), None, MEMORY),
        try_import(&LayoutRequest { storage: &odd, ..request }, &ring(3), None, MEMORY),
        try_import(&LayoutRequest { storage: &lone, ..request }, &ring(3), None, MEMORY),
        try_import(&request, &given(5, &[(1, 2), (4, 5)]), None, MEMORY),
        try_import(&request, &weight(f64::NAN), None, MEMORY),
        try_import(&request, &weight(f64::NEG_INFINITY), None, MEMORY),
        try_import(&request, &ring(100), Some(99), MEMORY),
        try_import(&request, &given(1 << 33, &[]), None, MEMORY),
        try_import(&request, &MemorySource::new(VertexSet::Range, &[(0, u64::MAX)]), None, MEMORY),
        try_import(&request, &given(1 << 30, &[]), None, MEMORY),
        try_import(&request, &ring(100), None, 16 << 20),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    "../x" cannot name a data set: a name begins with a letter or digit, goes on with letters, digits, '.', '_' and '-', does not end in .json, and has at most 200 characters; rename the entry in datasets.toml
    a stripe of 100000 bytes is no multiple of the chunk of 32768 bytes; change storage.stripe
    storage.ssds is 1, but there are 2 directories in storage.devices; name one for each SSD, or none
    memory(2 edges) has an edge 4 -> 5, but its vertices are 0..5 (given); correct the number of vertices
    memory(100 edges) has an edge 50 -> 51 with the weight NaN, and a weight must be a finite number; correct it, or ignore all weights by weights = "none"
    memory(100 edges) has an edge 50 -> 51 with the weight -inf, and a weight must be a finite number; correct it, or ignore all weights by weights = "none"
    memory(100 edges) has 100 edges, but the data set says edges = 99; correct the entry, or fetch the file again if it was cut short
    memory(0 edges) has 8589934592 vertices, and this version stores at most 4294967296 (2^32); for ids with large gaps in a binary edge list, give the graph as text, where only the ids seen are vertices
    memory(1 edges) has 18446744073709551616 vertices, and this version stores at most 4294967296 (2^32); for ids with large gaps in a binary edge list, give the graph as text, where only the ids seen are vertices
    import of memory(0 edges) needs at least 4117 MiB of memory (4294967296 bytes for the degrees of 1073741824 vertices, and buffers to sort edges), the budget is 128 MiB: raise engine.memory, or give the import more by `ioc build --memory`
    import of memory(100 edges) needs at least 19 MiB of memory (0 bytes to number vertices, and buffers for 100 ranges of destinations), the budget is 16 MiB: raise engine.memory, or give the import more by `ioc build --memory`
    "#);
    let sparse: Vec<_> = (1..300_000).map(|i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i)).collect();
    let error = try_import(&request, &MemorySource::new(VertexSet::Seen, &sparse), None, 22 << 20);
    // How many ids had come when they were too many depends on the threads.
    assert!(
        error.contains("distinct vertex ids") && error.contains("is 22 MiB: raise engine.memory"),
        "{error}"
    );
}

/// Makes a layout's devices those of another time, as `paths.json` remembers them.
fn forget_file_systems(grid: &Grid) {
    let path = grid.paths.dir.join("paths.json");
    let mut paths: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for file_system in paths["file_systems"].as_array_mut().unwrap() {
        *file_system = 1.into();
    }
    fs::write(path, paths.to_string()).unwrap();
}

#[test]
fn an_empty_mount_point_is_not_built_on_and_its_grid_is_not_collected() {
    let folder = tempfile::tempdir().unwrap();
    let (data, setup) = (folder.path().join("data"), on_devices(folder.path(), 2));
    let grid = setup.build(&data, &ring(1000)).unwrap();
    if file_system_is_unknown(&grid) {
        return;
    }
    forget_file_systems(&grid);
    // All files are there: then it does not matter where.
    assert!(setup.open(&data).is_some());
    let away = folder.path().join("away");
    let ssd = &setup.storage.devices[1];
    let mounted = grid.paths.parts[1].parent().unwrap();
    fs::rename(mounted, &away).unwrap();
    for error in [
        crate::grid::open(&data, &setup.request()).unwrap_err(),
        setup.build(&data, &ring(1000)).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("is on another file system than when a grid of g was built"), "{text}");
    }
    let collected = gc(&data, &[], |_| true).unwrap();
    assert_eq!((collected.layouts, collected.unmounted.len()), (0, 1));
    assert_eq!(list(&data).unwrap()[0].unmounted.as_ref(), Some(&setup.storage.devices[0]));
    // A mount point that is gone loses nothing either.
    fs::remove_dir(ssd).unwrap();
    setup.build(&data, &ring(1000)).unwrap_err();
    assert_eq!(gc(&data, &[], |_| true).unwrap().layouts, 0);
    fs::create_dir(ssd).unwrap();
    fs::rename(&away, mounted).unwrap();
    verify(&setup.open(&data).unwrap()).unwrap();
    // Whoever gives it up may.
    fs::remove_dir_all(mounted).unwrap();
    remove(&data, "g", &list(&data).unwrap()[0].key).unwrap();
    verify(&setup.build(&data, &ring(1000)).unwrap()).unwrap();
}

/// Some file systems have no id that could be remembered.
fn file_system_is_unknown(grid: &Grid) -> bool {
    fs::read_to_string(grid.paths.dir.join("paths.json")).unwrap().contains("null")
}

#[test]
fn what_is_left_on_devices_of_a_data_directory_that_is_gone_is_collected_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let setup = on_devices(folder.path(), 2);
    let devices = &setup.storage.devices;
    let lost = setup.build(&one, &ring(1000)).unwrap();
    let other = setup.build(&two, &ring(1000)).unwrap();
    let foreign = devices[0].join("g-g0123456789abcdef-notes");
    fs::create_dir(&foreign).unwrap();
    // By whatever path: of a grid that is there nothing is taken.
    let alias = folder.path().join("alias");
    std::os::unix::fs::symlink(&devices[0], &alias).unwrap();
    assert_eq!(gc(&one, &[alias], |_| true).unwrap().orphans, 0);
    verify(&lost).unwrap();
    fs::remove_dir_all(&one).unwrap();
    assert_eq!(gc(&one, &[], |_| true).unwrap().orphans, 0);
    let collected = gc(&one, devices, |_| true).unwrap();
    assert_eq!((collected.orphans, collected.layouts), (2, 0));
    assert_eq!(collected.bytes, lost.manifest.part_bytes.iter().sum::<u64>());
    assert!(lost.paths.parts.iter().all(|part| !part.parent().unwrap().exists()));
    assert!(foreign.is_dir() && list(&one).unwrap().is_empty());
    verify(&other).unwrap();
}
