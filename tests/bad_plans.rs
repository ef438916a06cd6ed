//! Frozen plans that are damaged, edited or beyond the machine: each ends with its exit code and one message.

mod common;

use common::bad::triangle as project;
use insta::assert_snapshot;

#[test]
fn wrong_plans() {
    let project = project();
    // A plan that is not there.
    assert_snapshot!(project.refused(2, &["run", "--plan", "plan.json", "--index", "0"]), @"error: cannot read the plan plan.json: No such file or directory (os error 2); `ioc run` writes one to OUT/JOB/plan.json");
    // No plan at all.
    assert_snapshot!(project.refused(2, &["run", "--plan", "jobs/job.toml", "--index", "0"]), @"error: jobs/job.toml is damaged or no plan of this version of ioc (expected value at line 1 column 1); `ioc run` with its job file makes it anew");
    project.good(&["run", "jobs/job.toml"]);
    let plan = project.read("reports/job/plan.json");
    project.write("plan.json", &plan);
    // A run that the plan does not have.
    assert_snapshot!(project.refused(2, &["run", "--plan", "plan.json", "--index", "7"]), @"error: plan.json has no run 7: it has 1 run, counted from 0");
    // A damaged plan.
    project.write("plan.json", &plan[..10]);
    assert_snapshot!(project.refused(2, &["run", "--plan", "plan.json", "--index", "0"]), @"error: plan.json is damaged or no plan of this version of ioc (EOF while parsing a string at line 2 column 8); `ioc run` with its job file makes it anew");
    // A plan of another version.
    project.write("plan.json", plan.replacen("\"version\": 1", "\"version\": 9", 1));
    assert_snapshot!(project.refused(2, &["run", "--plan", "plan.json", "--index", "0"]), @"error: plan.json is damaged or no plan of this version of ioc (version 9, expected 1); `ioc run` with its job file makes it anew");
}

/// Sets the value at a dotted path of every run of a plan.
fn edited(plan: &str, path: &str, value: serde_json::Value) -> String {
    let mut plan: serde_json::Value = serde_json::from_str(plan).unwrap();
    let at = path.split('.').fold(&mut plan["runs"][0]["spec"], |node, key| &mut node[key]);
    *at = value;
    plan.to_string()
}

#[test]
fn a_plan_with_absurd_numbers_is_refused_by_name_and_range() {
    let project = project();
    project.good(&["run", "jobs/job.toml"]);
    let plan = project.read("reports/job/plan.json");
    let refused = |path: &str, value: serde_json::Value| {
        project.write("plan.json", edited(&plan, path, value));
        let said = project.refused(2, &["run", "--plan", "plan.json", "--index", "0"]);
        assert_eq!(project.ioc(&["build", "--plan", "plan.json", "--index", "0"]).code, 2);
        said.strip_prefix("error: plan.json: run 0 has ")
            .unwrap_or(&said)
            .split(';')
            .next()
            .unwrap()
            .to_owned()
    };
    let value = |number: u64| serde_json::json!({ "value": number });
    let said = [
        refused("engine.memory", (1_u64 << 63).into()),
        refused("engine.buffer", 0.into()),
        refused("engine.block_size", value(1000)),
        refused("engine.compute_threads", value(0)),
        refused("engine.io_depth", value(1 << 31)),
        refused("engine.io_batch", 0.into()),
        refused("storage.stripe", (1_u64 << 63).into()),
        refused("storage.ssds", 0.into()),
        refused("storage.emulate", 0.into()),
        refused("grid.columns", value(0)),
        refused("grid.source_window", value(0)),
        refused("measure.repeat", u32::MAX.into()),
        refused("algorithm", serde_json::json!({ "scan": { "iterations": 0 } })),
    ];
    assert_snapshot!(said.join("\n"), @r"
    engine.memory = 9223372036854775808, expected 1 to 1,125,899,906,842,624 bytes (1 PiB)
    engine.buffer = 0, expected 1 to 1,125,899,906,842,624 bytes (1 PiB)
    engine.block_size = 1000, expected a multiple of 32768 bytes, up to 1 PiB
    engine.compute_threads = 0, expected an integer from 1 to 1,024
    engine.io_depth = 2147483648, expected an integer from 1 to 4,096
    engine.io_batch = 0, expected an integer from 1 to 4,096
    storage.stripe = 9223372036854775808, expected a multiple of 32768 bytes, up to 1 PiB
    storage.ssds = 0, expected an integer from 1 to 64
    storage.emulate = 0, expected bytes per second, above 0
    grid.columns = 0, expected an integer from 1 to 1,048,576
    grid.source_window = 0, expected an integer from 1 to 4,294,967,296
    measure.repeat = 4294967295, expected an integer from 1 to 100,000
    algorithm.scan.iterations = 0, expected an integer from 1 to 1,000,000,000
    ");
    assert!(refused("measure.timeout_s", 1.into()).contains("unknown field `timeout_s`"));
}

#[test]
fn a_buffer_beyond_the_machine_is_refused_with_figures() {
    let project = project();
    for buffer in ["512 TiB", "1 PiB"] {
        let sets = ["--set", "engine.memory=1 PiB", "--set", &format!("engine.buffer={buffer}")];
        let said = project.ioc(&[&["run", "jobs/job.toml", "--quiet"][..], &sets].concat());
        assert!(said.code == 2 || said.code == 3, "{}", said.stderr);
        let refused = said.stderr.contains("of memory") && said.stderr.contains("but this machine has");
        assert!(refused || said.stderr.contains("is all taken by `engine.buffer`"), "{}", said.stderr);
    }
    assert!(!project.claims_success());
}
