//! Recorded load on disk: files of NDJSON, each with a stretch of time in one
//! step length, coarser with age.
//!
//! ```text
//!   fine-….ndjson     an hour each        in the steps that were measured
//!   minutes-….ndjson  six hours each      by the minute
//!   tens-….ndjson     a day each          by ten minutes
//!   hours-….ndjson    thirty days each    by the hour
//! ```
//! A file that is older than its kind is kept becomes part of the next kind's:
//! the new file is written whole, renamed over the old one, and only then is the
//! source removed. What was not finished when the process was killed is done
//! again; what is there twice is read once. A torn last line is cut off. When
//! all of it takes more than it may, the oldest goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ballast_domain::Timestamp;
use ballast_hotspot_detector::load::Sample;
use ballast_hotspot_detector::load::record::{Reader, Tier, downsample, header, lines};

const SOURCE: &str = "ballast";
const HOUR_MS: i64 = 3_600_000;

/// One kind of file.
struct Kind {
    name: &'static str,
    /// How long a stretch one file holds.
    chunk_ms: i64,
    tier: Tier,
}

/// From fine to coarse.
const KINDS: [Kind; 4] = [
    Kind {
        name: "fine",
        chunk_ms: HOUR_MS,
        tier: Tier::NORMAL[0],
    },
    Kind {
        name: "minutes",
        chunk_ms: 6 * HOUR_MS,
        tier: Tier::NORMAL[1],
    },
    Kind {
        name: "tens",
        chunk_ms: 24 * HOUR_MS,
        tier: Tier::NORMAL[2],
    },
    Kind {
        name: "hours",
        chunk_ms: 30 * 24 * HOUR_MS,
        tier: Tier::NORMAL[3],
    },
];

/// A file by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Chunk {
    kind: usize,
    start_ms: i64,
}

impl Chunk {
    fn of(kind: usize, at: Timestamp) -> Self {
        let length = KINDS[kind].chunk_ms;
        let start_ms = at.unix_ms().div_euclid(length) * length;
        Self { kind, start_ms }
    }

    fn end_ms(self) -> i64 {
        self.start_ms.saturating_add(KINDS[self.kind].chunk_ms)
    }

    fn name(self) -> String {
        format!("{}-{}.ndjson", KINDS[self.kind].name, self.start_ms)
    }

    fn parse(name: &str) -> Option<Self> {
        let (kind, rest) = name.split_once('-')?;
        let kind = KINDS.iter().position(|known| known.name == kind)?;
        let start_ms = rest.strip_suffix(".ndjson")?.parse().ok()?;
        Some(Self { kind, start_ms })
    }

    /// Whether it is old enough to become part of the next kind, or to go.
    fn is_old(self, now: Timestamp) -> bool {
        let keep_ms = i64::try_from(KINDS[self.kind].tier.keep_ms).unwrap_or(i64::MAX);
        now.unix_ms().saturating_sub(keep_ms) >= self.end_ms()
    }
}

/// The record in a directory.
pub struct LoadFiles {
    directory: PathBuf,
    bytes_max: u64,
    writing: Mutex<Option<Writing>>,
}

/// The file that is written to.
struct Writing {
    chunk: Chunk,
    file: File,
}

impl LoadFiles {
    /// The record in this directory, which is made if it is not there.
    pub fn open(directory: impl Into<PathBuf>, bytes_max: u64) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self {
            directory,
            bytes_max,
            writing: Mutex::new(None),
        })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn writing(&self) -> MutexGuard<'_, Option<Writing>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a sample down. Whenever a new file is begun, old ones are looked
    /// after.
    pub fn append(&self, sample: &Sample) -> io::Result<()> {
        let chunk = Chunk::of(0, sample.interval.start);
        let mut writing = self.writing();
        if writing.as_ref().is_none_or(|open| open.chunk != chunk) {
            *writing = None;
            let file = open_for_append(&self.directory.join(chunk.name()))?;
            *writing = Some(Writing { chunk, file });
            self.tend(sample.interval.end(), chunk)?;
        }
        let Some(open) = writing.as_mut() else {
            return Ok(());
        };
        let written = open.file.write_all(lines(sample).as_bytes());
        if written.is_err() {
            // Half a line may be there: it is cut off when the file is opened anew.
            *writing = None;
        }
        written
    }

    /// Thins out what is old, and removes what is too much.
    fn tend(&self, now: Timestamp, current: Chunk) -> io::Result<()> {
        for kind in 0..KINDS.len() {
            for chunk in self.chunks()?.into_iter().filter(|it| it.kind == kind) {
                if chunk != current && chunk.is_old(now) {
                    self.retire(chunk)?;
                }
            }
        }
        let mut sizes = Vec::new();
        for chunk in self.chunks()? {
            let size = fs::metadata(self.directory.join(chunk.name()))?.len();
            sizes.push((chunk, size));
        }
        let mut total: u64 = sizes.iter().map(|(_, size)| size).sum();
        // The coarsest are the oldest.
        for (chunk, size) in sizes {
            if total <= self.bytes_max || chunk == current {
                break;
            }
            fs::remove_file(self.directory.join(chunk.name()))?;
            tracing::info!(
                file = chunk.name(),
                "recorded load made room for newer load"
            );
            total -= size;
        }
        Ok(())
    }

    /// Makes a file part of the next kind's, or removes it if there is none.
    fn retire(&self, chunk: Chunk) -> io::Result<()> {
        let path = self.directory.join(chunk.name());
        let Some(next) = KINDS.get(chunk.kind + 1) else {
            return fs::remove_file(path);
        };
        let mut samples = Vec::new();
        read_file(&path, &mut |sample| samples.push(sample))?;
        let coarse = downsample(samples, next.tier.step_ms);
        let into = Chunk::of(chunk.kind + 1, Timestamp::from_unix_ms(chunk.start_ms));
        let target = self.directory.join(into.name());
        let mut all = Vec::new();
        if target.exists() {
            read_file(&target, &mut |sample| all.push(sample))?;
        }
        let known = all.last().map_or(i64::MIN, end_ms);
        all.extend(
            coarse
                .into_iter()
                .filter(|it| it.interval.start.unix_ms() >= known),
        );
        let mut text = header(SOURCE);
        all.iter().for_each(|sample| text.push_str(&lines(sample)));
        let half = self.directory.join(format!("{}.half", into.name()));
        let mut file = File::create(&half)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&half, &target)?;
        File::open(&self.directory)?.sync_all()?;
        fs::remove_file(path)
    }

    /// Every file, in the order of time: the coarse ones first.
    fn chunks(&self) -> io::Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            chunks.extend(Chunk::parse(&entry?.file_name().to_string_lossy()));
        }
        chunks.sort_by_key(|chunk| (std::cmp::Reverse(chunk.kind), chunk.start_ms));
        Ok(chunks)
    }

    /// Tells what was recorded between two moments, oldest first.
    pub fn read(
        &self,
        from: Timestamp,
        to: Timestamp,
        mut each: impl FnMut(Sample),
    ) -> io::Result<()> {
        let mut known = from.unix_ms();
        for chunk in self.chunks()? {
            if chunk.end_ms() <= from.unix_ms() || chunk.start_ms >= to.unix_ms() {
                continue;
            }
            let path = self.directory.join(chunk.name());
            let read = read_file(&path, &mut |sample| {
                let start = sample.interval.start.unix_ms();
                // An interval that has begun before belongs to what was before;
                // what is there twice is told once.
                if start >= known && start < to.unix_ms() {
                    known = end_ms(&sample);
                    each(sample);
                }
            });
            match read {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// How many bytes all of it takes.
    pub fn bytes(&self) -> io::Result<u64> {
        let sizes = self.chunks()?.into_iter().map(|chunk| {
            let found = fs::metadata(self.directory.join(chunk.name()));
            found.map(|found| found.len())
        });
        sizes.sum()
    }
}

fn end_ms(sample: &Sample) -> i64 {
    sample.interval.end().unix_ms()
}

/// Opens a file to be written on, with its torn last line cut off.
fn open_for_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).open(path)?;
    let whole = whole_bytes(&mut file)?;
    file.set_len(whole)?;
    if whole == 0 {
        file.write_all(header(SOURCE).as_bytes())?;
    }
    Ok(file)
}

/// How many bytes there are up to the last end of a line.
fn whole_bytes(file: &mut File) -> io::Result<u64> {
    const BLOCK: u64 = 64 * 1024;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        io::Read::read_to_end(&mut io::Read::take(&mut *file, end - start), &mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Tells the samples of a file. What cannot be read ends it: what came before is
/// as good as ever.
fn read_file(path: &Path, each: &mut dyn FnMut(Sample)) -> io::Result<()> {
    let mut lines = BufReader::new(File::open(path)?);
    let mut reader = Reader::default();
    let mut line = String::new();
    loop {
        line.clear();
        let read = match lines.read_line(&mut line) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::InvalidData => break,
            Err(error) => return Err(error),
        };
        // Without an end it is being written, or never was to its end.
        if read == 0 || !line.ends_with('\n') {
            break;
        }
        match reader.line(line.trim_end()) {
            Ok(sample) => sample.into_iter().for_each(&mut *each),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "recorded load is left out from here");
                break;
            }
        }
    }
    if let Ok(Some(sample)) = reader.finish() {
        each(sample);
    }
    Ok(())
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
