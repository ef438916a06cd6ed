//! An engine that fails where it is told to, for tests of everything above it: what a disk does once in years
//! must be tried daily. Which faults strike is decided by the requests alone, so a test sees the same each time.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::held::{Held, PATIENCE, sleep_until};
use super::slab::Slab;
use super::transfer::unexpected_eof;
use super::{Completion, IoEngine, ReadRequest};
use crate::storage::buffer::AlignedBuffer;

/// What a buffer holds where a fault has kept the data away: nothing that could pass for zeroed memory.
const JUNK: u8 = 0xDB;

/// Which requests a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The k-th request that this engine was given, counted from 0.
    Request(u64),
    /// Every request that covers this byte of this device's file.
    Covers {
        /// The device.
        device: usize,
        /// The byte.
        offset: u64,
    },
    /// Every request.
    Always,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device reports an I/O error (EIO).
    Error,
    /// The file ends after so many bytes of the request: `UnexpectedEof`.
    Short(usize),
    /// The lowest bit of this byte of the request is wrong, and nobody says so.
    FlippedBit(usize),
    /// It is completed no sooner than this after its submission.
    Delay(Duration),
}

/// A fault and when it strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Which requests.
    pub when: When,
    /// What happens to them.
    pub fault: Fault,
}

/// An engine with faults. Rules apply in order, all that match.
pub struct FaultyEngine {
    inner: Box<dyn IoEngine>,
    rules: Vec<Rule>,
    /// Requests given to the inner engine so far.
    count: u64,
    /// The caller's tag and the faults of what is in flight; its tag there is the slot.
    marked: Slab<(u64, Vec<Fault>)>,
    /// Marked, but the inner engine had no room yet.
    starting: Vec<ReadRequest>,
    held: Held,
    finished: Vec<Completion>,
}

impl FaultyEngine {
    /// `inner`, with these faults.
    pub fn new(inner: Box<dyn IoEngine>, rules: Vec<Rule>) -> Self {
        let marked = Slab::with_capacity(inner.capacity());
        let (starting, held, finished) = (Vec::new(), Held::default(), Vec::new());
        Self { inner, rules, count: 0, marked, starting, held, finished }
    }

    fn mark(&mut self, mut request: ReadRequest) -> ReadRequest {
        let strikes = |rule: &&Rule| rule.when.strikes(self.count, &request);
        let faults = self.rules.iter().filter(strikes).map(|rule| rule.fault).collect();
        self.count += 1;
        request.tag = self.marked.insert((request.tag, faults)) as u64;
        request
    }

    fn reap_inner(&mut self) -> io::Result<()> {
        if !self.starting.is_empty() {
            self.inner.submit(&mut self.starting)?;
        }
        let result = self.inner.reap(1, &mut self.finished);
        for mut completion in self.finished.drain(..) {
            let Some((tag, faults)) = self.marked.remove(completion.request.tag as usize) else { continue };
            completion.request.tag = tag;
            let mut due = completion.completed;
            for fault in faults {
                match fault {
                    Fault::Delay(delay) => due = due.max(completion.submitted + delay),
                    fault => fault.apply(&mut completion),
                }
            }
            self.held.hold(due, completion);
        }
        result
    }
}

impl When {
    fn strikes(self, count: u64, request: &ReadRequest) -> bool {
        match self {
            Self::Request(k) => k == count,
            Self::Covers { device, offset } => {
                device == request.device
                    && offset.checked_sub(request.offset).is_some_and(|inside| inside < request.len as u64)
            }
            Self::Always => true,
        }
    }
}

impl Fault {
    fn apply(self, completion: &mut Completion) {
        let ReadRequest { len, ref mut buffer, .. } = completion.request;
        match self {
            Self::Error => {
                buffer[..len].fill(JUNK);
                completion.result = Err(Errno::IO.into());
            }
            Self::Short(bytes) => {
                buffer[bytes.min(len)..len].fill(JUNK);
                completion.result = Err(unexpected_eof(bytes, len));
            }
            Self::FlippedBit(byte) => {
                if let Some(byte) = buffer[..len].get_mut(byte) {
                    *byte ^= 1;
                }
            }
            Self::Delay(_) => {}
        }
    }
}

impl IoEngine for FaultyEngine {
    fn submit(&mut self, requests: &mut Vec<ReadRequest>) -> io::Result<()> {
        let taken = requests.len().min(self.capacity().saturating_sub(self.in_flight()));
        for request in requests.drain(..taken) {
            let marked = self.mark(request);
            self.starting.push(marked);
        }
        self.inner.submit(&mut self.starting)
    }

    fn reap(&mut self, _least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let before = completions.len();
        loop {
            self.held.release(completions);
            if completions.len() > before || self.in_flight() == 0 || Instant::now() >= deadline {
                return Ok(());
            }
            match self.held.next_due() {
                Some(due) if self.marked.len() == 0 => sleep_until(due, deadline),
                _ => self.reap_inner()?,
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.marked.len() + self.held.len()
    }

    fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    fn register(&mut self, buffers: &[AlignedBuffer]) -> io::Result<()> {
        self.inner.register(buffers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::testing::{Disk, drain, request};

    const LEN: usize = 8192;

    /// Reads the whole disk in order under these rules, on every engine, and checks that `expect` holds for each.
    fn read_all(rules: &[Rule], expect: impl Fn(&Disk, &Completion) -> bool) {
        for io in crate::io::testing::kinds() {
            let disk = Disk::new(2, 8 * LEN as u64);
            let mut engine = FaultyEngine::new(disk.engine(io, 16), rules.to_vec());
            let mut requests: Vec<_> =
                (0..16).map(|k| request(k % 2, (k / 2 * LEN) as u64, LEN, k as u64)).collect();
            engine.submit(&mut requests).unwrap();
            assert!(requests.is_empty());
            let completions = drain(&mut engine);
            assert_eq!(completions.len(), 16);
            for completion in &completions {
                assert!(expect(&disk, completion), "{io:?}: {completion:?}");
            }
        }
    }

    #[test]
    fn an_error_strikes_the_request_of_that_number_and_no_other() {
        read_all(
            &[Rule { when: When::Request(5), fault: Fault::Error }],
            |disk, completion| match completion.request.tag {
                5 => completion.result.as_ref().unwrap_err().raw_os_error() == Some(5),
                _ => disk.holds(completion),
            },
        );
    }

    #[test]
    fn a_short_file_strikes_the_request_that_covers_the_byte() {
        let when = When::Covers { device: 1, offset: 3 * LEN as u64 + 17 };
        read_all(&[Rule { when, fault: Fault::Short(100) }], |disk, completion| {
            let struck = (completion.request.device, completion.request.offset) == (1, 3 * LEN as u64);
            match &completion.result {
                Err(error) => {
                    struck
                        && error.kind() == io::ErrorKind::UnexpectedEof
                        && completion.request.buffer[100] == JUNK
                }
                Ok(()) => !struck && disk.holds(completion),
            }
        });
    }

    #[test]
    fn a_flipped_bit_is_silent_and_flips_one_bit() {
        let rule = Rule { when: When::Request(0), fault: Fault::FlippedBit(4000) };
        read_all(&[rule], |disk, completion| {
            let wanted = disk.wanted(completion);
            let differing: u32 = wanted
                .iter()
                .zip(&completion.request.buffer[..LEN])
                .map(|(wanted, found)| (wanted ^ found).count_ones())
                .sum();
            completion.result.is_ok() && differing == u32::from(completion.request.tag == 0)
        });
    }

    #[test]
    fn a_delayed_request_is_late_and_right() {
        let delay = Duration::from_millis(150);
        read_all(&[Rule { when: When::Request(3), fault: Fault::Delay(delay) }], |disk, completion| {
            let late = completion.completed - completion.submitted >= delay;
            disk.holds(completion) && (completion.request.tag != 3 || late)
        });
    }

    #[test]
    fn rules_add_up() {
        let delay = Duration::from_millis(20);
        let rules = [
            Rule { when: When::Always, fault: Fault::Delay(delay) },
            Rule { when: When::Request(1), fault: Fault::Error },
        ];
        read_all(&rules, |_, completion| {
            completion.completed - completion.submitted >= delay
                && completion.result.is_err() == (completion.request.tag == 1)
        });
    }
}
