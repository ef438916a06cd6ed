//! A survey as people read it: MB/s by block size and depth, one table per device, then what follows.

use std::fmt::{self, Display, Formatter};

use super::choice::Choice;
use super::survey::{EngineSurvey, Survey, Table};
use super::{Rate, Setting};
use crate::job::spec::IoSpec;
use crate::units::format_bytes;

/// Rates that differ by less than this are shown once.
const ALIKE: f64 = 0.05;

/// Engines whose CPU differs by less than this are not worth a change.
const WORTH: f64 = 0.2;

impl Display for Survey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (device, directory) in self.directories.iter().enumerate() {
            writeln!(
                f,
                "{}: MB/s by bytes per request and requests outstanding, until more bring nothing",
                directory.display()
            )?;
            let mut shown: Vec<(&EngineSurvey, &Table)> = Vec::new();
            for engine in &self.engines {
                let table = &engine.tables[device];
                match shown.iter().find(|(_, other)| alike(table, other)) {
                    Some((other, _)) => {
                        writeln!(
                            f,
                            "  {}: as {}, within {:.0} %",
                            engine.io.name(),
                            other.io.name(),
                            ALIKE * 100.0
                        )?;
                    }
                    None => write_table(f, engine.io, table)?,
                }
                shown.push((engine, table));
            }
        }
        writeln!(
            f,
            "together, while every core computes: MB/s by I/O threads, and CPU of these per GB with the fewest"
        )?;
        for engine in &self.engines {
            write_trials(f, engine)?;
        }
        writeln!(f, "best")?;
        for engine in &self.engines {
            match &engine.choice {
                Some(choice) => writeln!(f, "  {:9} {}", engine.io.name(), advice(choice))?,
                None => writeln!(f, "  {:9} nothing came in time", engine.io.name())?,
            }
        }
        match self.preferred() {
            Some((engine, why)) => write!(f, "recommended: engine.io = \"{}\", {why}", engine.io.name()),
            None => write!(f, "no recommendation: the devices delivered nothing in time"),
        }
    }
}

impl Survey {
    /// The engine to use, and why.
    fn preferred(&self) -> Option<(&EngineSurvey, String)> {
        let chosen = || self.engines.iter().filter_map(|engine| Some((engine, engine.choice.as_ref()?)));
        let most = chosen().map(|(_, choice)| choice.rate.bytes_per_s).fold(0.0, f64::max);
        let fills = |choice: &Choice| choice.rate.bytes_per_s >= most * (1.0 - ALIKE);
        let cost = |choice: &Choice| choice.rate.cpu_s_per_byte;
        let (mut best, mut choice) = chosen().find(|(_, choice)| fills(choice))?;
        for (engine, other) in chosen().filter(|(_, choice)| fills(choice)) {
            if cost(other) < cost(choice) * (1.0 - WORTH) {
                (best, choice) = (engine, other);
            }
        }
        let why = format!("{}: {}", advice(choice), choice.reason);
        Some((best, why))
    }
}

fn advice(choice: &Choice) -> String {
    let advice = &choice.advice;
    format!(
        "block_size = \"{}\", io_depth = {}, io_threads = {} ({:.0} MB/s, {:.3} CPU s/GB)",
        format_bytes(advice.block),
        advice.depth,
        advice.io_threads,
        choice.rate.mb_per_s(),
        choice.rate.cpu_s_per_gb()
    )
}

/// Whether every rate of `table` is about that of the same cell of `other`.
fn alike(table: &Table, other: &Table) -> bool {
    table.cells.iter().all(|&(block, depth, rate)| {
        other.get(block, depth).is_some_and(|other| {
            (rate.bytes_per_s - other.bytes_per_s).abs() <= ALIKE * other.bytes_per_s.max(rate.bytes_per_s)
        })
    })
}

fn write_table(f: &mut Formatter<'_>, io: IoSpec, table: &Table) -> fmt::Result {
    let mut depths: Vec<u32> = table.cells.iter().map(|cell| cell.1).collect();
    depths.sort_unstable();
    depths.dedup();
    let mut blocks: Vec<u64> = table.cells.iter().map(|cell| cell.0).collect();
    blocks.dedup();
    write!(f, "  {:9}", io.name())?;
    for depth in &depths {
        write!(f, "{depth:>8}")?;
    }
    writeln!(f)?;
    for block in blocks {
        let cell = |&depth: &u32| match table.get(block, depth) {
            Some(rate) => format!("{:>8.0}", rate.mb_per_s()),
            None => " ".repeat(8),
        };
        let row: String = depths.iter().map(cell).collect();
        writeln!(f, "{:>11}{}", format_bytes(block), row.trim_end())?;
    }
    Ok(())
}

fn write_trials(f: &mut Formatter<'_>, engine: &EngineSurvey) -> fmt::Result {
    let mut ways: Vec<(u64, u32)> = Vec::new();
    for (setting, _) in &engine.trials {
        if !ways.contains(&(setting.block, setting.depth)) {
            ways.push((setting.block, setting.depth));
        }
    }
    for (block, depth) in ways {
        let of_way = |(setting, _): &&(Setting, Rate)| (setting.block, setting.depth) == (block, depth);
        let mut own = engine.trials.iter().filter(of_way).peekable();
        let cost = own.peek().map_or(0.0, |(_, rate)| rate.cpu_s_per_gb());
        let rates: Vec<String> =
            own.map(|(setting, rate)| format!("{}: {:.0}", setting.threads, rate.mb_per_s())).collect();
        writeln!(
            f,
            "  {:9} {:>8} x {depth:<3} {}  ({cost:.3} CPU s/GB)",
            engine.io.name(),
            format_bytes(block),
            rates.join(", ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::advice::Advice;

    fn rate(mb: f64, cpu_s_per_gb: f64) -> Rate {
        Rate { bytes_per_s: mb * 1e6, cpu_s_per_byte: cpu_s_per_gb / 1e9 }
    }

    fn engine(io: IoSpec, cells: Vec<(u64, u32, Rate)>, cpu: f64) -> EngineSurvey {
        let setting = |threads| Setting { io, block: 1 << 20, depth: 2, threads };
        let advice = Advice { block: 1 << 20, depth: 2, io_threads: 1, depths: vec![(1 << 20, 2)] };
        EngineSurvey {
            io,
            tables: vec![Table { cells }],
            trials: vec![(setting(1), rate(449.0, cpu)), (setting(2), rate(450.0, cpu))],
            choice: Some(Choice { advice, rate: rate(449.0, cpu), reason: "it fills".to_owned() }),
        }
    }

    fn survey(io_uring_cpu: f64) -> Survey {
        let cells = vec![
            (128 << 10, 1, rate(310.0, 0.1)),
            (128 << 10, 2, rate(440.0, 0.1)),
            (1 << 20, 1, rate(420.0, 0.05)),
        ];
        let close =
            cells.iter().map(|&(block, depth, cell)| (block, depth, rate(cell.mb_per_s() * 1.03, 0.1)));
        Survey {
            directories: vec!["/mnt/ssd0".into()],
            engines: vec![
                engine(IoSpec::Libaio, cells.clone(), 0.06),
                engine(IoSpec::IoUring, close.collect(), io_uring_cpu),
                engine(IoSpec::Psync, vec![(128 << 10, 1, rate(250.0, 0.1))], 0.09),
            ],
        }
    }

    #[test]
    fn a_survey_reads_as_tables_and_ends_with_what_to_do() {
        insta::assert_snapshot!(survey(0.03), @r#"
        /mnt/ssd0: MB/s by bytes per request and requests outstanding, until more bring nothing
          libaio          1       2
            128 KiB     310     440
              1 MiB     420
          io_uring: as libaio, within 5 %
          psync           1
            128 KiB     250
        together, while every core computes: MB/s by I/O threads, and CPU of these per GB with the fewest
          libaio       1 MiB x 2   1: 449, 2: 450  (0.060 CPU s/GB)
          io_uring     1 MiB x 2   1: 449, 2: 450  (0.030 CPU s/GB)
          psync        1 MiB x 2   1: 449, 2: 450  (0.090 CPU s/GB)
        best
          libaio    block_size = "1 MiB", io_depth = 2, io_threads = 1 (449 MB/s, 0.060 CPU s/GB)
          io_uring  block_size = "1 MiB", io_depth = 2, io_threads = 1 (449 MB/s, 0.030 CPU s/GB)
          psync     block_size = "1 MiB", io_depth = 2, io_threads = 1 (449 MB/s, 0.090 CPU s/GB)
        recommended: engine.io = "io_uring", block_size = "1 MiB", io_depth = 2, io_threads = 1 (449 MB/s, 0.030 CPU s/GB): it fills
        "#);
    }

    #[test]
    fn the_default_engine_is_kept_unless_another_saves_a_fifth_of_its_cpu() {
        let preferred = |cpu| survey(cpu).preferred().unwrap().0.io;
        assert_eq!(
            [0.055, 0.049, 0.047, 0.03].map(preferred),
            [IoSpec::Libaio, IoSpec::Libaio, IoSpec::IoUring, IoSpec::IoUring]
        );
    }

    #[test]
    fn devices_that_delivered_nothing_are_said_to() {
        let nothing =
            EngineSurvey { io: IoSpec::Psync, tables: vec![Table::default()], trials: vec![], choice: None };
        let text = Survey { directories: vec!["/mnt/ssd0".into()], engines: vec![nothing] }.to_string();
        assert!(text.contains("nothing came in time") && text.contains("no recommendation"), "{text}");
    }
}
