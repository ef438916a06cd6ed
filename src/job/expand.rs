//! From a job as written to its points: variants x matrix x (algorithms and externals), less what is excluded.
//!
//! Order: variants as written, then the shared axes (the first one slowest), then the algorithms, then the axes
//! that belong to the algorithm alone, then the externals. An axis whose option `--set` gives has collapsed to that value.
//! Of the points of an external most are the same run, which [`super::batch`] keeps once.

use super::fault::{Fault, Faults};
use super::file::{Axis, Exclude, JobFile, Variant};
use super::layer::{External, Layer, Layers};
use super::registry;
use super::source::Origin;
use super::suggest;
use crate::units::format_count;

/// More runs than any batch can mean: beyond it a matrix is a mistake.
pub(crate) const MOST_RUNS: u64 = 100_000;

/// One run, not yet merged.
#[derive(Debug)]
pub(crate) struct Point<'a> {
    pub(crate) variant: &'a str,
    pub(crate) task: Task<'a>,
    pub(crate) layers: Layers<'a>,
}

/// What is run at a point.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task<'a> {
    /// One of our algorithms.
    Algorithm(&'static str),
    /// A command of another program: as it was first written.
    External(&'a External),
}

/// What a job expands to.
#[derive(Debug)]
pub(crate) struct Expansion<'a> {
    pub(crate) points: Vec<Point<'a>>,
    /// Notes on entries of `exclude` that had no effect.
    pub(crate) notes: Faults,
}

/// Expands a job, with the layers of `--set` on top.
pub(crate) fn expand<'a>(job: &'a JobFile, sets: &'a [Layer], faults: &mut Faults) -> Expansion<'a> {
    let mut expansion = Expansion { points: Vec::new(), notes: Faults::new() };
    let axes: Vec<&Axis> = job.axes.iter().filter(|axis| !collapsed(axis, sets)).collect();
    let crossings: Vec<Crossing<'_>> =
        job.variants.iter().map(|variant| Crossing::new(job, variant, &axes, sets)).collect();
    if !check(job, &crossings, faults) {
        return expansion;
    }
    let mut used = vec![false; job.excludes.len()];
    for point in crossings.iter().flat_map(Crossing::points) {
        let excluding = job.excludes.iter().position(|exclude| matches(exclude, &point));
        match excluding {
            Some(at) => used[at] = true,
            None => expansion.points.push(point),
        }
    }
    for (exclude, _) in job.excludes.iter().zip(used).filter(|(_, used)| !used) {
        let fault = Fault::new("this entry of `exclude` matches no run that is not left out already");
        expansion.notes.push(fault.at(&exclude.origin).note());
    }
    let excluding = job.excludes.first().filter(|_| expansion.points.is_empty() && !job.flawed);
    if let Some(exclude) = excluding {
        let fault = Fault::new("`exclude` leaves no run of the job").at(&exclude.origin);
        faults.push(fault.help("take out an entry of `exclude`"));
    }
    expansion
}

/// Whether `--set` decides what the axis varies.
fn collapsed(axis: &Axis, sets: &[Layer]) -> bool {
    let set = |path: &str| sets.iter().any(|layer| layer.get(path).is_some());
    set(&axis.path) || (axis.path.starts_with("dataset.") && set("dataset"))
}

/// What is wrong with a job's matrix as a whole. Whether it can be expanded.
fn check(job: &JobFile, crossings: &[Crossing<'_>], faults: &mut Faults) -> bool {
    if !crossings.iter().all(Crossing::has_dataset) && !job.flawed {
        let fault = Fault::new("the job has no `dataset`").at_source(&job.source);
        faults.push(fault.help("name an entry of datasets.toml, for example dataset = \"kron-20\""));
    }
    if crossings.iter().any(Crossing::is_empty) && !job.flawed {
        let fault = Fault::new("the job has no algorithm").at_source(&job.source);
        faults.push(fault.help("add a table, for example [algorithm.pagerank]"));
        return false;
    }
    for axis in &job.axes {
        let Some(algorithm) = axis.algorithm() else { continue };
        let runs = |crossing: &Crossing<'_>| crossing.algorithms.iter().any(|(name, _)| *name == algorithm);
        if !crossings.iter().any(runs) && !job.flawed {
            let message =
                format!("the axis `{}` belongs to an algorithm that the job does not run", axis.path);
            let help = format!("add a table [algorithm.{algorithm}], or take the axis out");
            faults.push(Fault::new(message).at(&axis.origin).help(help));
        }
    }
    let count = crossings.iter().try_fold(0_u64, |sum, crossing| sum.checked_add(crossing.count()?));
    if count.is_none_or(|count| count > MOST_RUNS) {
        let count = count.map_or("more than 2^64".into(), format_count);
        let sizes: Vec<String> =
            job.axes.iter().map(|axis| format!("`{}` {}", axis.path, axis.values.len())).collect();
        let message = format!("the matrix has {count} runs, more than {}", format_count(MOST_RUNS));
        let help = format!("split the job, or shorten an axis; values per axis: {}", sizes.join(", "));
        let fault = Fault::new(message).help(help);
        faults.push(match job.axes.first() {
            Some(axis) => fault.at(&axis.origin),
            None => fault.at_source(&job.source),
        });
        return false;
    }
    !crossings.iter().all(Crossing::is_empty)
}

/// All points of one variant.
struct Crossing<'a> {
    variant: &'a str,
    /// Below the matrix: job and variant.
    below: [&'a Layer; 2],
    shared: Vec<&'a [Layer]>,
    algorithms: Vec<(&'static str, Vec<&'a [Layer]>)>,
    externals: Vec<&'a External>,
    sets: &'a [Layer],
}

impl<'a> Crossing<'a> {
    fn new(job: &'a JobFile, variant: &'a Variant, axes: &[&'a Axis], sets: &'a [Layer]) -> Self {
        let values = |algorithm: Option<&str>| -> Vec<&'a [Layer]> {
            let own = axes.iter().filter(|axis| axis.algorithm() == algorithm);
            own.map(|axis| axis.values.as_slice()).collect()
        };
        let mut algorithms: Vec<(&'static str, Vec<&'a [Layer]>)> = Vec::new();
        for (name, _) in job.base.algorithms.iter().chain(&variant.layer.algorithms) {
            if !algorithms.iter().any(|(known, _)| known == name) {
                algorithms.push((name, values(Some(name))));
            }
        }
        let below = [&job.base, &variant.layer];
        let mut externals: Vec<&External> = Vec::new();
        for external in below.iter().flat_map(|layer| &layer.externals) {
            if !externals.iter().any(|known| known.name == external.name) {
                externals.push(external);
            }
        }
        Self { variant: &variant.name, below, shared: values(None), algorithms, externals, sets }
    }

    fn is_empty(&self) -> bool {
        self.algorithms.is_empty() && self.externals.is_empty()
    }

    fn has_dataset(&self) -> bool {
        let axes = self.shared.iter().filter_map(|values| values.first());
        self.below.into_iter().chain(axes).chain(self.sets).any(registry::is_given)
    }

    /// Number of points, if 64 bits hold it.
    fn count(&self) -> Option<u64> {
        let externals = self.externals.len() as u64;
        let mut axes = self.algorithms.iter().map(|(_, axes)| axes);
        let own = axes.try_fold(externals, |sum, axes| sum.checked_add(product(axes)?))?;
        product(&self.shared)?.checked_mul(own)
    }

    fn points(&self) -> impl Iterator<Item = Point<'a>> {
        cross(&self.shared).flat_map(move |shared| {
            let externals: Vec<Point<'a>> = self
                .externals
                .iter()
                .map(|external| self.point(Task::External(external), &shared, Vec::new()))
                .collect();
            let algorithms = self.algorithms.iter().flat_map(move |(algorithm, axes)| {
                let shared = shared.clone();
                cross(axes).map(move |own| self.point(Task::Algorithm(algorithm), &shared, own))
            });
            algorithms.chain(externals)
        })
    }

    fn point(&self, task: Task<'a>, shared: &[&'a Layer], own: Vec<&'a Layer>) -> Point<'a> {
        let variant = match task {
            Task::Algorithm(_) => self.variant,
            Task::External(external) => &external.name,
        };
        Point { variant, task, layers: self.stack(shared, own) }
    }

    fn stack(&self, shared: &[&'a Layer], own: Vec<&'a Layer>) -> Layers<'a> {
        let mut layers = vec![Layer::defaults()];
        layers.extend(self.below);
        layers.extend(shared);
        layers.extend(own);
        layers.extend(self.sets);
        Layers(layers)
    }
}

fn product(axes: &[&[Layer]]) -> Option<u64> {
    axes.iter().try_fold(1_u64, |product, values| product.checked_mul(values.len() as u64))
}

/// The cartesian product, the first axis slowest. Its size was checked before.
fn cross<'a>(axes: &[&'a [Layer]]) -> impl Iterator<Item = Vec<&'a Layer>> {
    (0..product(axes).unwrap_or(0)).map(move |number| {
        let mut rest = number as usize;
        let mut layers: Vec<&Layer> = axes
            .iter()
            .rev()
            .map(|values| {
                let layer = &values[rest % values.len()];
                rest /= values.len();
                layer
            })
            .collect();
        layers.reverse();
        layers
    })
}

fn matches(exclude: &Exclude, point: &Point<'_>) -> bool {
    let named = |name: &Option<String>, value: &str| name.as_ref().is_none_or(|name| name == value);
    let algorithm = match point.task {
        Task::Algorithm(name) => Some(name),
        Task::External(_) => None,
    };
    // Parameters of an algorithm mean only its own runs.
    let own = |path: &str| match path.strip_prefix("algorithm.") {
        Some(rest) => rest.split('.').next() == algorithm,
        None => true,
    };
    named(&exclude.variant, point.variant)
        && exclude.algorithm.as_ref().is_none_or(|name| algorithm == Some(name))
        && exclude.settings.iter().all(|(path, setting)| {
            own(path) && point.layers.get(path).is_some_and(|merged| merged.value == setting.value)
        })
}

/// Parameters of algorithms and externals that `--set` gives and no run of the batch has.
pub(crate) fn unused_sets(
    sets: &[Layer],
    used: &[&'static str],
    used_externals: &[String],
    faults: &mut Faults,
) {
    for External { name, origin, .. } in sets.iter().flat_map(|layer| &layer.externals) {
        if !used_externals.contains(name) {
            let fault = Fault::new(format!("no job of the batch has an external `{name}`")).at(origin);
            let help = suggest::did_you_mean(name, used_externals.iter().map(String::as_str));
            faults.push(fault.help(help.unwrap_or_else(|| {
                format!("`--set` changes parameters; to run it, add a table [external.{name}] to a job")
            })));
        }
    }
    for (name, origin) in sets.iter().flat_map(|layer| &layer.algorithms) {
        if !used.contains(name) {
            faults.push(unused_set(name, origin));
        }
    }
}

fn unused_set(name: &str, origin: &Origin) -> Fault {
    Fault::new(format!("no job of the batch runs the algorithm `{name}`"))
        .at(origin)
        .help(format!("`--set` changes parameters; to run it, add a table [algorithm.{name}] to a job"))
}
