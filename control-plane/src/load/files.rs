//! Recorded load on disk: NDJSON files, each covering a time range in one step
//! length. Older load is kept in longer steps.
//!
//! ```text
//!   fine-….ndjson     one hour each       in the measured steps
//!   minutes-….ndjson  six hours each      by the minute
//!   tens-….ndjson     one day each        by ten minutes
//!   hours-….ndjson    thirty days each    by the hour
//! ```
//! When a file exceeds its tier's retention, it is merged into a file of the next
//! tier: the new file is written completely, renamed over the old one, and only
//! then is the source removed. A merge that a crash interrupts is repeated;
//! samples present in both files are read once. A torn last line is cut off. When
//! the total exceeds the size limit, the oldest files are removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ballast_domain::Timestamp;
use ballast_hotspot_detector::load::LoadSample;
use ballast_hotspot_detector::load::record::{RecordReader, Tier, downsample, header, lines};

const SOURCE: &str = "ballast";
const HOUR_MS: i64 = 3_600_000;

/// A retention tier.
struct FileTier {
    name: &'static str,
    /// Time range covered by one file.
    chunk_ms: i64,
    tier: Tier,
}

/// From fine to coarse.
const FILE_TIERS: [FileTier; 4] = [
    FileTier {
        name: "fine",
        chunk_ms: HOUR_MS,
        tier: Tier::NORMAL[0],
    },
    FileTier {
        name: "minutes",
        chunk_ms: 6 * HOUR_MS,
        tier: Tier::NORMAL[1],
    },
    FileTier {
        name: "tens",
        chunk_ms: 24 * HOUR_MS,
        tier: Tier::NORMAL[2],
    },
    FileTier {
        name: "hours",
        chunk_ms: 30 * 24 * HOUR_MS,
        tier: Tier::NORMAL[3],
    },
];

/// The name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Chunk {
    kind: usize,
    start_ms: i64,
}

impl Chunk {
    fn containing(kind: usize, at: Timestamp) -> Self {
        let length = FILE_TIERS[kind].chunk_ms;
        let start_ms = at.unix_ms().div_euclid(length) * length;
        Self { kind, start_ms }
    }

    fn end_ms(self) -> i64 {
        self.start_ms.saturating_add(FILE_TIERS[self.kind].chunk_ms)
    }

    fn name(self) -> String {
        format!("{}-{}.ndjson", FILE_TIERS[self.kind].name, self.start_ms)
    }

    fn parse(name: &str) -> Option<Self> {
        let (kind, rest) = name.split_once('-')?;
        let kind = FILE_TIERS.iter().position(|known| known.name == kind)?;
        let start_ms = rest.strip_suffix(".ndjson")?.parse().ok()?;
        Some(Self { kind, start_ms })
    }

    /// Whether its retention is over: it is merged into the next tier, or removed.
    fn is_old(self, now: Timestamp) -> bool {
        let keep_ms = i64::try_from(FILE_TIERS[self.kind].tier.keep_ms).unwrap_or(i64::MAX);
        now.unix_ms().saturating_sub(keep_ms) >= self.end_ms()
    }
}

/// The recorded load in a directory.
pub struct LoadFiles {
    directory: PathBuf,
    bytes_max: u64,
    writing: Mutex<Option<ActiveFile>>,
}

/// The file that samples are appended to.
struct ActiveFile {
    chunk: Chunk,
    file: File,
}

impl LoadFiles {
    /// Opens the record in this directory, creating it if necessary.
    pub fn open(directory: impl Into<PathBuf>, bytes_max: u64) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self {
            directory,
            bytes_max,
            writing: Mutex::new(None),
        })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn writing(&self) -> MutexGuard<'_, Option<ActiveFile>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a sample. Starting a new file also enforces retention.
    pub fn append(&self, sample: &LoadSample) -> io::Result<()> {
        let chunk = Chunk::containing(0, sample.interval.start);
        let mut writing = self.writing();
        if writing.as_ref().is_none_or(|open| open.chunk != chunk) {
            *writing = None;
            let file = open_for_append(&self.directory.join(chunk.name()))?;
            *writing = Some(ActiveFile { chunk, file });
            self.enforce_retention(sample.interval.end(), chunk)?;
        }
        let Some(open) = writing.as_mut() else {
            return Ok(());
        };
        let written = open.file.write_all(lines(sample).as_bytes());
        if written.is_err() {
            // Half a line may have been written: reopening cuts it off.
            *writing = None;
        }
        written
    }

    /// Merges or removes old files, and enforces the size limit.
    fn enforce_retention(&self, now: Timestamp, current: Chunk) -> io::Result<()> {
        for kind in 0..FILE_TIERS.len() {
            for chunk in self.chunks()?.into_iter().filter(|it| it.kind == kind) {
                if chunk != current && chunk.is_old(now) {
                    self.merge_into_next_tier(chunk)?;
                }
            }
        }
        let mut sizes = Vec::new();
        for chunk in self.chunks()? {
            let size = fs::metadata(self.directory.join(chunk.name()))?.len();
            sizes.push((chunk, size));
        }
        let mut total: u64 = sizes.iter().map(|(_, size)| size).sum();
        // Coarse files come first and are the oldest.
        for (chunk, size) in sizes {
            if total <= self.bytes_max || chunk == current {
                break;
            }
            fs::remove_file(self.directory.join(chunk.name()))?;
            tracing::info!(
                file = chunk.name(),
                "removed the oldest recorded load: size limit reached"
            );
            total -= size;
        }
        Ok(())
    }

    /// Merges a file into the next tier, or removes it if there is none.
    fn merge_into_next_tier(&self, chunk: Chunk) -> io::Result<()> {
        let path = self.directory.join(chunk.name());
        let Some(next) = FILE_TIERS.get(chunk.kind + 1) else {
            return fs::remove_file(path);
        };
        let mut samples = Vec::new();
        read_file(&path, &mut |sample| samples.push(sample))?;
        let coarse = downsample(samples, next.tier.step_ms);
        let into = Chunk::containing(chunk.kind + 1, Timestamp::from_unix_ms(chunk.start_ms));
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

    /// All files in time order: coarse ones first.
    fn chunks(&self) -> io::Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            chunks.extend(Chunk::parse(&entry?.file_name().to_string_lossy()));
        }
        chunks.sort_by_key(|chunk| (std::cmp::Reverse(chunk.kind), chunk.start_ms));
        Ok(chunks)
    }

    /// Reads the samples recorded between two moments, oldest first.
    pub fn read(
        &self,
        from: Timestamp,
        to: Timestamp,
        mut each: impl FnMut(LoadSample),
    ) -> io::Result<()> {
        let mut known = from.unix_ms();
        for chunk in self.chunks()? {
            if chunk.end_ms() <= from.unix_ms() || chunk.start_ms >= to.unix_ms() {
                continue;
            }
            let path = self.directory.join(chunk.name());
            let read = read_file(&path, &mut |sample| {
                let start = sample.interval.start.unix_ms();
                // Skip intervals that overlap the previous sample: they are
                // duplicates from an interrupted merge.
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

    /// The total size in bytes.
    pub fn bytes(&self) -> io::Result<u64> {
        let sizes = self.chunks()?.into_iter().map(|chunk| {
            let found = fs::metadata(self.directory.join(chunk.name()));
            found.map(|found| found.len())
        });
        sizes.sum()
    }
}

fn end_ms(sample: &LoadSample) -> i64 {
    sample.interval.end().unix_ms()
}

/// Opens a file for appending and cuts off a torn last line.
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

/// Number of bytes up to the last newline.
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

/// Reads the samples of a file. Stops at the first unreadable line; the samples
/// before it stay valid.
fn read_file(path: &Path, each: &mut dyn FnMut(LoadSample)) -> io::Result<()> {
    let mut lines = BufReader::new(File::open(path)?);
    let mut reader = RecordReader::default();
    let mut line = String::new();
    loop {
        line.clear();
        let read = match lines.read_line(&mut line) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::InvalidData => break,
            Err(error) => return Err(error),
        };
        // Without a newline, the line is still being written or was torn.
        if read == 0 || !line.ends_with('\n') {
            break;
        }
        match reader.line(line.trim_end()) {
            Ok(sample) => sample.into_iter().for_each(&mut *each),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "skipping the rest of a recorded load file");
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
