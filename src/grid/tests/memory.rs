//! The budget is kept. `VmHWM` is of a whole process, so the import runs in one of its own.

use super::*;

/// A pseudo-random graph that takes no memory.
struct Scattered {
    vertices: u64,
    edges: u64,
    weighted: bool,
    sparse: bool,
}

/// Edges of a batch.
const BATCH: u64 = 4096;

impl Scattered {
    fn edge(&self, number: u64) -> Edge {
        let id = |seed: u64| {
            let mixed = crate::grid::digest::digest(number, seed, 0);
            // The product of two fractions: few ids are frequent, most are rare.
            let (left, right) = (mixed & 0xffff_ffff, mixed >> 32);
            let id = ((left * right) >> 32) * self.vertices >> 32;
            if self.sparse { id.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { id }
        };
        let weight = if self.weighted { (number % 1000) as f64 / 7.0 } else { 1.0 };
        Edge { source: id(1), target: id(2), weight }
    }
}

impl EdgeSource for Scattered {
    fn describe(&self) -> String {
        "scattered".to_owned()
    }

    fn vertices(&self) -> VertexSet {
        if self.sparse { VertexSet::Seen } else { VertexSet::Declared(self.vertices) }
    }

    fn size(&self) -> (Option<u64>, Unit) {
        (Some(self.edges), Unit::Edges)
    }

    fn read(&self, context: Context<'_>, sink: &Sink<'_>) -> Result<Summary, DatasetError> {
        let next = std::sync::atomic::AtomicU64::new(0);
        let read = |worker| {
            let mut batch = Vec::new();
            loop {
                let start = next.fetch_add(BATCH, std::sync::atomic::Ordering::Relaxed);
                if start >= self.edges {
                    return;
                }
                batch.clear();
                batch.extend((start..self.edges.min(start + BATCH)).map(|number| self.edge(number)));
                sink(worker, &batch).unwrap();
            }
        };
        std::thread::scope(|scope| {
            let read = &read;
            (0..context.threads).for_each(|worker| drop(scope.spawn(move || read(worker))));
        });
        Ok(Summary { edges: self.edges, weighted: self.weighted })
    }
}

/// Set to the parameters where this process is the one to measure.
const CHILD: &str = "IOC_GRID_MEMORY_TEST";

/// Imports and prints figures: `SCALE,EDGE_FACTOR,WEIGHTED,SPARSE,MIB`.
fn import(parameters: &str) {
    let numbers: Vec<u64> = parameters.split(',').map(|number| number.parse().unwrap()).collect();
    let [scale, edge_factor, weighted, sparse, mib] = numbers[..] else { panic!("{parameters}") };
    let (vertices, weighted, sparse) = (1 << scale, weighted == 1, sparse == 1);
    let source = Scattered { vertices, edges: edge_factor << scale, weighted, sparse };
    let interrupt = Interrupt::new();
    let context = Context { threads: 2, interrupt: &interrupt, progress: &Silent };
    let data = tempfile::tempdir_in(std::env::var("IOC_GRID_MEMORY_DIR").unwrap_or(std::env::temp_dir().display().to_string())).unwrap();
    let setup = Setup::default();
    let grid = crate::grid::build(data.path(), &setup.request(), &source, None, mib << 20, context).unwrap();
    let peak = grid.manifest.import_max_rss_b;
    let seconds = grid.manifest.import_s;
    let rate = source.edges as f64 / seconds / 1e6;
    eprintln!("{parameters}: {} MiB of {mib}, {seconds} s, {rate:.1} M edges/s", peak >> 20);
    assert!(peak > 0 && peak <= mib << 20, "{peak} bytes");
    verify(&grid).unwrap();
}

fn measure(parameters: &[&str]) {
    for parameters in parameters {
        let test = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(test);
        child.args(["--exact", "grid::tests::memory::child", "--ignored", "--nocapture", "--test-threads=1"]);
        let output = child.env(CHILD, parameters).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains(" MiB of "), "{parameters}: {text}");
        eprint!("{text}");
    }
}

#[test]
#[ignore = "is run by the tests below in a process of its own"]
fn child() {
    if let Ok(parameters) = std::env::var(CHILD) {
        import(&parameters);
    }
}

#[test]
fn peak_memory_stays_within_the_budget() {
    measure(&["18,8,0,0,28", "18,8,1,0,40", "18,8,0,1,32", "20,4,1,1,64"]);
}

#[test]
#[ignore = "takes minutes and gigabytes: `cargo test --release --lib grid::tests::memory -- --ignored`"]
fn scale_22_stays_within_256_mib() {
    measure(&["22,16,0,0,256", "22,16,1,0,256", "22,16,0,1,256", "22,16,1,1,256", "22,16,0,0,64"]);
}
