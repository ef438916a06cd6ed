//! The identity of a run: the same on every machine for the same computation in the same manner.
//!
//! In it: the data set's fingerprint; the algorithm and its parameters; `storage.ssds`, `stripe` and `emulate`;
//! `[grid]`; `[engine]`. What the user left to `ioc` is in it as `auto`, not as what this machine makes of it.
//!
//! Not in it: the names of job, variant and data set and every path, because they say nothing of the run; of
//! `spmv`'s `x` only whether it is a file (its content belongs in the fingerprint); `storage.rated` and `keep`,
//! `[measure]` and `[output]`, because they do not change what runs; `engine.io_threads` of the model `sync`,
//! which has none.
//!
//! Of an external: the data set's fingerprint, its words as the job has them (and so the paths in them), format,
//! `time_regex`, `iterations`, and what of `[engine]` and `[storage]` its words use.
//!
//! An option that a later version adds joins only where it differs from what came before it, so that ids stay
//! comparable across versions.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::spec::{
    AlgorithmSpec, Auto, BfsSpec, EngineSpec, ExternalSpec, GridSpec, PagerankSpec, RunSpec, ScanSpec,
    SpmvSpec, SsspSpec, StorageSpec, VertexStateSpec,
};

/// `r` and 12 hex digits: of xxh3 over the canonical JSON (dotted names in byte order, no blanks) of what the
/// module's head lists. It begins with a letter because spreadsheets read `123e4567` as a number.
pub fn run_id(spec: &RunSpec, dataset_fingerprint: &str) -> String {
    let hash = xxhash_rust::xxh3::xxh3_64(canonical(spec, dataset_fingerprint).as_bytes());
    format!("r{:012x}", hash >> 16)
}

/// The text that is hashed.
fn canonical(spec: &RunSpec, dataset_fingerprint: &str) -> String {
    let mut fields = Fields(BTreeMap::new());
    fields.put("dataset", dataset_fingerprint);
    fields.algorithm(&spec.algorithm);
    if spec.algorithm.external().is_none() {
        fields.storage(&spec.storage);
        fields.grid(&spec.grid);
        fields.engine(&spec.engine);
    }
    let pairs: Vec<String> =
        fields.0.iter().map(|(name, value)| format!("{}:{value}", Value::from(*name))).collect();
    format!("{{{}}}", pairs.join(","))
}

struct Fields(BTreeMap<&'static str, Value>);

impl Fields {
    fn put(&mut self, name: &'static str, value: impl Serialize) {
        let value = serde_json::to_value(value).expect("numbers, strings and enums of the job are JSON");
        self.0.insert(name, value);
    }

    fn put_auto(&mut self, name: &'static str, value: &Auto<impl Serialize>) {
        match value {
            Auto::Auto => self.put(name, "auto"),
            Auto::Value(value) => self.put(name, value),
        }
    }

    // The parts are taken apart without `..`: whoever adds a field decides here whether it is identity.

    fn algorithm(&mut self, algorithm: &AlgorithmSpec) {
        self.put("algorithm", algorithm.name());
        match algorithm {
            AlgorithmSpec::Scan(ScanSpec { iterations, enough: _ }) => {
                self.put("algorithm.scan.iterations", iterations);
            }
            AlgorithmSpec::Pagerank(PagerankSpec {
                iterations,
                tolerance,
                precision,
                damping,
                dangling,
                init,
            }) => {
                self.put("algorithm.pagerank.iterations", iterations);
                self.put("algorithm.pagerank.tolerance", tolerance);
                self.put("algorithm.pagerank.precision", precision);
                self.put("algorithm.pagerank.damping", damping);
                self.put("algorithm.pagerank.dangling", dangling);
                self.put("algorithm.pagerank.init", init);
            }
            AlgorithmSpec::Spmv(SpmvSpec { iterations, x }) => {
                self.put("algorithm.spmv.iterations", iterations);
                self.put("algorithm.spmv.x", if x.is_some() { "file" } else { "ones" });
            }
            AlgorithmSpec::Bfs(BfsSpec { root }) => self.put_auto("algorithm.bfs.root", root),
            AlgorithmSpec::Sssp(SsspSpec { root }) => self.put_auto("algorithm.sssp.root", root),
            AlgorithmSpec::Wcc => {}
            AlgorithmSpec::External(external) => self.external(external),
        }
    }

    /// Its words as written, so that what the placeholders stand for counts beside them; what it says that it computes is a
    /// name.
    fn external(&mut self, external: &ExternalSpec) {
        let ExternalSpec {
            name: _,
            algorithm: _,
            directory: _,
            command,
            prepare,
            format,
            time_regex,
            iterations,
            threads,
            memory,
            ssds,
        } = external;
        self.put("algorithm", "external");
        self.put("external.command", command);
        self.put("external.prepare", prepare);
        self.put("external.format", format);
        self.put("external.time_regex", time_regex);
        self.put("external.iterations", iterations);
        if let Some(threads) = threads {
            self.put_auto("engine.compute_threads", threads);
        }
        if let Some(memory) = memory {
            self.put("engine.memory", memory);
        }
        if let Some(ssds) = ssds {
            self.put("storage.ssds", ssds);
        }
    }

    fn storage(&mut self, storage: &StorageSpec) {
        let StorageSpec { devices: _, ssds, stripe, rated: _, emulate, keep: _ } = storage;
        self.put("storage.ssds", ssds);
        self.put("storage.stripe", stripe);
        self.put("storage.emulate", emulate);
    }

    fn grid(&mut self, grid: &GridSpec) {
        let GridSpec { encoding, columns, source_window, order, interleave } = grid;
        self.put("grid.encoding", encoding);
        self.put("grid.order", order);
        self.put_auto("grid.columns", columns);
        self.put_auto("grid.source_window", source_window);
        self.put_auto("grid.interleave", interleave);
    }

    fn engine(&mut self, engine: &EngineSpec) {
        let EngineSpec {
            model,
            io,
            block_size,
            io_depth,
            io_batch,
            io_threads,
            compute_threads,
            buffer,
            memory,
            cache,
            kernel,
            vertex_state,
        } = engine;
        self.put("engine.model", model);
        self.put("engine.io", io);
        self.put_auto("engine.block_size", block_size);
        self.put_auto("engine.io_depth", io_depth);
        self.put("engine.io_batch", io_batch);
        self.put_auto("engine.io_threads", io_threads);
        self.put_auto("engine.compute_threads", compute_threads);
        self.put("engine.buffer", buffer);
        self.put("engine.memory", memory);
        self.put("engine.cache", cache);
        self.put("engine.kernel", kernel);
        // Only where it is asked for, so that runs from before there was a choice keep their ids.
        if *vertex_state != VertexStateSpec::Auto {
            self.put("engine.vertex_state", vertex_state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::job::{JobSource, LoadOptions, load_batch};

    const JOB: &str = "dataset = { generate = { kronecker = { scale = 10 } } }\n[algorithm.pagerank]\n";

    fn runs(text: &str, sets: &[&str]) -> Vec<RunSpec> {
        let source = JobSource::Text { name: "id".into(), text: text.into(), project: std::env::temp_dir() };
        let sets = sets.iter().map(ToString::to_string).collect();
        let batch = load_batch(&[source], &LoadOptions { sets, only: None });
        batch.unwrap_or_else(|faults| panic!("{faults}")).jobs.remove(0).runs
    }

    fn id(text: &str, sets: &[&str]) -> String {
        run_id(&runs(text, sets)[0], "kronecker-v1:10:16:1:false")
    }

    #[test]
    fn the_id_of_a_known_run_never_changes() {
        let spec = &runs(JOB, &["engine.block_size=128 KiB", "grid.encoding=raw"])[0];
        let fields = canonical(spec, "f").replace(',', ",\n");
        insta::assert_snapshot!(fields);
        assert_eq!(run_id(spec, "f"), "rbd8a828fb09a");
        assert_eq!(run_id(&runs(JOB, &["engine.block_size=128 KiB"])[0], "f"), "ra6b63f8e1ef7");
    }

    #[test]
    fn names_paths_and_measuring_do_not_matter() {
        let mut spec = runs(JOB, &[]).remove(0);
        let before = run_id(&spec, "f");
        spec.job = "other".into();
        spec.report = PathBuf::from("elsewhere/other");
        spec.variant = "v".into();
        spec.dataset.name = "other".into();
        spec.storage.devices = vec![PathBuf::from("/mnt/ssd0")];
        assert_eq!(run_id(&spec, "f"), before);
        for set in [
            "measure.repeat=9",
            "measure.warmup=0",
            "measure.order=sequential",
            "measure.timeout=1 h",
            "measure.verify=off",
            "output.values=csv",
            "storage.keep=false",
            "storage.rated=450 MB/s",
            "engine.block_size=auto",
        ] {
            assert_eq!(id(JOB, &[set]), id(JOB, &[]), "{set}");
        }
    }

    #[test]
    fn every_parameter_of_storage_grid_engine_and_algorithm_matters() {
        let sets = [
            "storage.ssds=2",
            "storage.stripe=1 MiB",
            "storage.emulate=450 MB/s",
            "grid.columns=8",
            "grid.source_window=65536",
            "grid.interleave=2",
            "engine.model=sync",
            "engine.io=psync",
            "engine.block_size=128 KiB",
            "engine.io_depth=8",
            "engine.io_batch=8",
            "engine.io_threads=2",
            "engine.compute_threads=2",
            "engine.buffer=32 MiB",
            "engine.memory=2 GiB",
            "engine.kernel=atomic",
            "engine.cache=off",
            "algorithm.pagerank.iterations=21",
            "algorithm.pagerank.tolerance=1e-9",
            "algorithm.pagerank.precision=f64",
            "algorithm.pagerank.damping=0.9",
            "algorithm.pagerank.dangling=ignore",
            "algorithm.pagerank.init=one",
        ];
        let mut ids: Vec<String> = sets.iter().map(|set| id(JOB, &[set])).collect();
        ids.push(id(JOB, &[]));
        ids.push(run_id(&runs(JOB, &[])[0], "another graph"));
        ids.push(id(&JOB.replace("pagerank", "spmv"), &[]));
        ids.push(id(&JOB.replace("pagerank", "spmv"), &["algorithm.spmv.x=x.csv"]));
        ids.push(id(&JOB.replace("pagerank", "scan"), &[]));
        for algorithm in ["bfs", "sssp"] {
            ids.push(id(&JOB.replace("pagerank", algorithm), &[]));
            ids.push(id(&JOB.replace("pagerank", algorithm), &[&format!("algorithm.{algorithm}.root=3")]));
        }
        ids.push(id(&JOB.replace("pagerank", "wcc"), &[]));
        let mut distinct = ids.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), ids.len(), "{ids:?}");
    }

    #[test]
    fn an_external_is_its_words_and_what_they_use() {
        const PEER: &str = "dataset = { generate = { kronecker = { scale = 10 } } }\n[external.x]\n";
        let peer =
            |keys: &str, set: &str| id(&format!("{PEER}command = [\"a\", \"{{threads}}\"]\n{keys}"), &[set]);
        let plain = peer("", "measure.repeat=3");
        for same in ["algorithm = \"pagerank\"", "timeout = \"1 h\"", "format = \"gridgraph\""] {
            assert_eq!(peer(same, "grid.columns=8"), plain, "{same}");
        }
        let mut ids: Vec<String> =
            ["time_regex = \"(a)\"", "iterations = 3", "format = \"gapbs\"", "prepare = [\"b\"]", ""]
                .map(|keys| peer(keys, "measure.repeat=3"))
                .to_vec();
        ids.push(peer("", "engine.compute_threads=1"));
        ids.push(peer("", "external.x.command=[\"b\", \"{threads}\"]"));
        let distinct: std::collections::HashSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{ids:?}");
    }

    #[test]
    fn a_default_written_out_and_io_threads_of_the_sync_model_are_the_same_run() {
        assert_eq!(id(JOB, &["algorithm.pagerank.iterations=20"]), id(JOB, &[]));
        assert_eq!(id(JOB, &["engine.model=sync", "engine.io_threads=4"]), id(JOB, &["engine.model=sync"]));
    }
}
