//! The nearest valid name to what was typed.

/// The candidate that a typing error most likely meant, if one is near: at most a third of the characters wrong,
/// or what was typed is a part of it.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let score = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        let distance = strsim::damerau_levenshtein(&typed, &candidate);
        let length = typed.chars().count().max(candidate.chars().count());
        let contained = match typed.len() {
            0 | 1 => false,
            2 => candidate.starts_with(&typed),
            _ => candidate.contains(&typed),
        };
        let near = distance * 3 <= length + 1;
        (near || contained).then_some((!near, distance))
    };
    let scored = candidates.into_iter().filter_map(|candidate| Some((score(candidate)?, candidate)));
    scored.min_by_key(|(score, _)| *score).map(|(_, candidate)| candidate)
}

/// ``did you mean `x`?``
pub(crate) fn did_you_mean<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(typed, candidates).map(|name| format!("did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name_and_nonsense_finds_none() {
        let names = ["iterations", "io_depth", "io_batch", "io", "compute_threads", "MB/s"];
        for (typed, name) in [
            ("iteratons", Some("iterations")),
            ("Iterations", Some("iterations")),
            ("io_dpeth", Some("io_depth")),
            ("oi", Some("io")),
            ("threads", Some("compute_threads")),
            ("MB", Some("MB/s")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names), name, "{typed}");
        }
    }
}
