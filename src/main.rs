//! `ioc`: parse the command line, do it, say how it went.

use std::process::ExitCode;

fn main() -> ExitCode {
    ioc_grid::cli::main()
}
