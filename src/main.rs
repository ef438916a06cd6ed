//! `ioc`.

fn main() {}
