//! A disk in memory that is as bad as the contract allows.
//!
//! It keeps two versions of its content: the one that programs see (the page
//! cache) and the one that survives a power failure (the platter). A crash
//! discards the first and may keep any part of the unsynced data, sector by
//! sector. A sync can be made to fail, and then forgets what it should have
//! written, as operating systems do: the next sync succeeds and has written
//! nothing.
//!
//! Tests can also hold syncs open ([`SimulatedDisk::hold_syncs`]) and stop the
//! machine at any operation ([`SimulatedDisk::stop_in`]): the old disk then
//! returns only errors, and [`SimulatedDisk::after`] gives the disk after the
//! crash.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, DiskFileId};

/// The unit that is written atomically.
const SECTOR: usize = 512;

/// A disk in memory. Clones share their state.
#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<DiskShared>,
}

struct DiskShared {
    state: Mutex<DiskState>,
    /// Notified when held syncs may continue.
    gate: Condvar,
}

/// What survives of unsynced data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process was killed: all written data is still visible, and nothing
    /// more of it is durable than before.
    Killed,
    /// Power loss: all unsynced data is lost.
    PowerLost,
    /// Power loss: each unsynced sector and name survives at random.
    PowerLostInTheMiddle,
}

#[derive(Default, Clone)]
struct DiskState {
    /// Names as programs see them, and as they are after a crash.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    files: Vec<Contents>,
    random: u64,
    /// Syncs until one fails; `None`: never.
    fail_sync_in: Option<u32>,
    /// Free bytes; `None` for unlimited.
    free_bytes: Option<u64>,
    /// Whether all changes fail.
    read_only: bool,
    /// Whether syncs wait, and how many are waiting.
    held: bool,
    waiting: usize,
    /// Whether syncs succeed without writing.
    lies: bool,
    /// Changes until the machine stops; `None`: never.
    stops_in: Option<u32>,
    stopped: bool,
}

#[derive(Default, Clone)]
struct Contents {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors written since the last sync, successful or not.
    dirty: Vec<usize>,
}

impl SimulatedDisk {
    /// An empty disk that takes its random choices from this seed.
    pub fn new(seed: u64) -> Self {
        let state = DiskState {
            random: seed.wrapping_mul(2) | 1,
            ..DiskState::default()
        };
        Self::with_state(state)
    }

    fn with_state(state: DiskState) -> Self {
        let state = Mutex::new(state);
        let gate = Condvar::new();
        Self {
            shared: Arc::new(DiskShared { state, gate }),
        }
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        let locked = self.shared.state.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for a change.
    fn change(&self) -> io::Result<MutexGuard<'_, DiskState>> {
        let mut state = self.state();
        match &mut state.stops_in {
            Some(0 | 1) => {
                state.stopped = true;
                self.shared.gate.notify_all();
            }
            Some(left) => *left -= 1,
            None => {}
        }
        state.check()?;
        if state.read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(state)
    }

    /// Locks the state for a sync, once the sync may begin.
    fn sync_begins(&self) -> io::Result<MutexGuard<'_, DiskState>> {
        let mut state = self.change()?;
        state.waiting += 1;
        while state.held && !state.stopped {
            let waited = self.shared.gate.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        state.check()?;
        Ok(state)
    }

    /// Makes every sync wait until [`Self::release_syncs`].
    pub fn hold_syncs(&self) {
        self.state().held = true;
    }

    /// The number of waiting syncs.
    pub fn syncs_held(&self) -> usize {
        let state = self.state();
        if state.held { state.waiting } else { 0 }
    }

    /// Lets waiting syncs continue.
    pub fn release_syncs(&self) {
        self.state().held = false;
        self.shared.gate.notify_all();
    }

    /// Makes every sync succeed without writing, as if the caller did not wait
    /// for syncs.
    pub fn lie_about_syncs(&self) {
        self.state().lies = true;
    }

    /// Stops the machine at the n-th change from now (1 is the next), which
    /// does not happen.
    pub fn stop_in(&self, n: u32) {
        self.state().stops_in = Some(n);
    }

    /// Stops the machine now, and returns the disk after the crash. The old
    /// disk returns only errors from now on.
    #[must_use]
    pub fn after(&self, crash: Crash) -> Self {
        let found = {
            let mut state = self.state();
            let found = DiskState {
                held: false,
                waiting: 0,
                stops_in: None,
                stopped: false,
                fail_sync_in: None,
                ..state.clone()
            };
            state.stopped = true;
            self.shared.gate.notify_all();
            Self::with_state(found)
        };
        found.crash(crash);
        found
    }

    /// Makes the n-th sync from now fail (1 is the next).
    pub fn fail_sync(&self, n: u32) {
        self.state().fail_sync_in = Some(n);
    }

    /// Sets the free bytes; `None` for unlimited.
    pub fn set_free_bytes(&self, bytes: Option<u64>) {
        self.state().free_bytes = bytes;
    }

    /// Makes every change fail, or work again, as when the operating system
    /// remounts a faulty disk read-only.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    /// Crashes. Drop open files first: they keep working on the old state.
    pub fn crash(&self, crash: Crash) {
        let mut state = self.state();
        if crash == Crash::Killed {
            return;
        }
        let torn = crash == Crash::PowerLostInTheMiddle;
        state.lose_names(torn);
        for place in 0..state.files.len() {
            state.lose_bytes(place, torn);
        }
    }

    /// Flips bits of a byte on the platter and in the cache.
    pub fn flip(&self, name: &str, place: usize) {
        let mut state = self.state();
        if let Some(&file) = state.names.get(name) {
            for bytes in [&mut state.files[file].cached] {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= 0x5a;
                }
            }
            if let Some(byte) = state.files[file].durable.get_mut(place) {
                *byte ^= 0x5a;
            }
        }
    }
}

impl DiskState {
    fn check(&self) -> io::Result<()> {
        match self.stopped {
            true => Err(io::Error::other("the machine has stopped")),
            false => Ok(()),
        }
    }

    fn random_bool(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random & 0x100 != 0
    }

    /// Resets every unsynced name to its state at the last sync; if torn, only
    /// some, at random.
    fn lose_names(&mut self, torn: bool) {
        let all: Vec<String> = self
            .names
            .keys()
            .chain(self.durable_names.keys())
            .cloned()
            .collect();
        for name in all {
            let (now, then) = (self.names.get(&name), self.durable_names.get(&name));
            if now != then && !(torn && self.random_bool()) {
                match self.durable_names.get(&name).copied() {
                    Some(file) => self.names.insert(name, file),
                    None => self.names.remove(&name),
                };
            }
        }
        self.durable_names = self.names.clone();
    }

    fn lose_bytes(&mut self, place: usize, torn: bool) {
        let Contents {
            cached,
            mut durable,
            dirty,
        } = std::mem::take(&mut self.files[place]);
        for sector in dirty {
            if torn && self.random_bool() {
                copy_sector(&cached, &mut durable, sector);
            }
        }
        self.files[place] = Contents {
            cached: durable.clone(),
            durable,
            dirty: Vec::new(),
        };
    }

    /// Counts a sync; returns whether it fails.
    fn sync_fails(&mut self) -> bool {
        match &mut self.fail_sync_in {
            Some(1) => {
                self.fail_sync_in = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }
}

fn copy_sector(from: &[u8], to: &mut Vec<u8>, sector: usize) {
    let range = sector * SECTOR..((sector + 1) * SECTOR).min(from.len());
    if range.start < from.len() {
        if to.len() < range.end {
            to.resize(range.end, 0);
        }
        to[range.clone()].copy_from_slice(&from[range]);
    }
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no such file: {name}"))
}

struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
}

impl Disk for SimulatedDisk {
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.change()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.files.len();
        state.files.push(Contents::default());
        state.names.insert(name.to_owned(), file);
        drop(state);
        let mut made = SimulatedFile {
            disk: self.clone(),
            file,
        };
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(0)];
        if let Err(error) = made.write_at(0, &zeros) {
            self.state().names.remove(name);
            return Err(error);
        }
        Ok(Box::new(made))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let state = self.state();
        state.check()?;
        let file = *state.names.get(name).ok_or_else(|| not_found(name))?;
        Ok(Box::new(SimulatedFile {
            disk: self.clone(),
            file,
        }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.change()?;
        let file = state.names.remove(from).ok_or_else(|| not_found(from))?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.change()?.names.remove(name) {
            Some(_) => Ok(()),
            None => Err(not_found(name)),
        }
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.sync_begins()?;
        if state.sync_fails() {
            return Err(io::Error::other("the sync failed"));
        }
        if state.lies {
            return Ok(());
        }
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn file_id(&self, name: &str) -> io::Result<Option<DiskFileId>> {
        let state = self.state();
        state.check()?;
        Ok(state.names.get(name).copied().map(file_id))
    }
}

/// Files keep their index.
fn file_id(file: usize) -> DiskFileId {
    DiskFileId {
        device: 0,
        number: file as u64,
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.change()?;
        let place = usize::try_from(place).map_err(io::Error::other)?;
        let end = place + bytes.len();
        let grown = end.saturating_sub(state.files[self.file].cached.len()) as u64;
        if let Some(free_bytes) = &mut state.free_bytes {
            if *free_bytes < grown {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *free_bytes -= grown;
        }
        let file = &mut state.files[self.file];
        if file.cached.len() < end {
            file.cached.resize(end, 0);
        }
        file.cached[place..end].copy_from_slice(bytes);
        file.dirty.extend(place / SECTOR..end.div_ceil(SECTOR));
        file.dirty.sort_unstable();
        file.dirty.dedup();
        Ok(())
    }

    fn read_at(&self, place: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.state();
        state.check()?;
        let cached = &state.files[self.file].cached;
        let place = usize::try_from(place)
            .map_err(io::Error::other)?
            .min(cached.len());
        let count = buffer.len().min(cached.len() - place);
        buffer[..count].copy_from_slice(&cached[place..place + count]);
        Ok(count)
    }

    fn bytes(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.check()?;
        Ok(state.files[self.file].cached.len() as u64)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.sync_begins()?;
        let fails = state.sync_fails();
        if state.lies && !fails {
            return Ok(());
        }
        let Contents {
            cached,
            durable,
            dirty,
        } = &mut state.files[self.file];
        let dirty = std::mem::take(dirty);
        if fails {
            // Forgotten: no later sync writes it.
            return Err(io::Error::other("the sync failed"));
        }
        for sector in dirty {
            copy_sector(cached, durable, sector);
        }
        Ok(())
    }

    fn id(&self) -> io::Result<DiskFileId> {
        Ok(file_id(self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::disk::read_all;

    fn read(disk: &SimulatedDisk, name: &str) -> Option<Vec<u8>> {
        disk.open(name).ok().map(|file| read_all(&*file).unwrap())
    }

    #[test]
    fn synced_data_survives_and_unsynced_data_may_not() {
        let disk = SimulatedDisk::new(1);
        let mut file = disk.create("a", 4).unwrap();
        file.write_at(0, b"safe").unwrap();
        file.sync().unwrap();
        disk.sync_names().unwrap();
        file.write_at(0, b"lost").unwrap();
        disk.create("b", 1).unwrap();
        assert_eq!(read(&disk, "a").unwrap(), b"lost");
        disk.crash(Crash::Killed);
        assert_eq!(read(&disk, "a").unwrap(), b"lost");
        disk.crash(Crash::PowerLost);
        assert_eq!(read(&disk, "a").unwrap(), b"safe");
        assert_eq!(read(&disk, "b"), None);
    }

    #[test]
    fn a_failed_sync_is_not_made_good_by_the_next() {
        let disk = SimulatedDisk::new(1);
        let mut file = disk.create("a", 3).unwrap();
        file.sync().unwrap();
        disk.sync_names().unwrap();
        file.write_at(0, b"new").unwrap();
        disk.fail_sync(1);
        assert!(file.sync().is_err());
        file.sync().unwrap();
        assert_eq!(read(&disk, "a").unwrap(), b"new", "still visible");
        disk.crash(Crash::PowerLost);
        assert_eq!(read(&disk, "a").unwrap(), [0; 3], "and was never written");
    }

    #[test]
    fn a_held_sync_has_written_nothing_until_it_is_released() {
        let disk = SimulatedDisk::new(1);
        let mut file = disk.create("a", 3).unwrap();
        file.sync().unwrap();
        disk.sync_names().unwrap();
        file.write_at(0, b"new").unwrap();
        disk.hold_syncs();
        let held = disk.clone();
        std::thread::scope(|scope| {
            let sync = scope.spawn(move || file.sync());
            while held.syncs_held() == 0 {
                std::thread::yield_now();
            }
            assert!(!sync.is_finished());
            held.release_syncs();
            sync.join().unwrap().unwrap();
        });
        disk.crash(Crash::PowerLost);
        assert_eq!(read(&disk, "a").unwrap(), b"new");
    }

    #[test]
    fn a_stopped_machine_fails_and_its_disk_can_be_opened() {
        let disk = SimulatedDisk::new(1);
        let mut file = disk.create("a", 3).unwrap();
        file.write_at(0, b"old").unwrap();
        file.sync().unwrap();
        disk.sync_names().unwrap();
        disk.stop_in(2);
        file.write_at(0, b"new").unwrap();
        assert!(file.sync().is_err());
        assert!(disk.list().is_err());
        let killed = disk.after(Crash::Killed);
        assert_eq!(read(&killed, "a").unwrap(), b"new");
        let lost = disk.after(Crash::PowerLost);
        assert_eq!(read(&lost, "a").unwrap(), b"old");
        assert!(file.write_at(0, b"!").is_err());
    }

    #[test]
    fn a_full_disk_says_so() {
        let disk = SimulatedDisk::new(1);
        disk.set_free_bytes(Some(10));
        let mut file = disk.create("a", 8).unwrap();
        assert!(file.write_at(6, b"long").is_ok());
        let error = file.write_at(8, b"longer").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(disk.create("b", 8).is_err());
        assert_eq!(disk.list().unwrap(), ["a"]);
    }

    #[test]
    fn a_read_only_disk_is_read_and_not_changed() {
        let disk = SimulatedDisk::new(1);
        let mut file = disk.create("a", 3).unwrap();
        disk.set_read_only(true);
        let refused = [
            file.write_at(0, b"new").unwrap_err(),
            file.sync().unwrap_err(),
            disk.create("b", 1).err().unwrap(),
            disk.rename("a", "b").unwrap_err(),
            disk.remove("a").unwrap_err(),
            disk.sync_names().unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(read(&disk, "a").unwrap(), [0; 3]);
        disk.set_read_only(false);
        file.write_at(0, b"new").unwrap();
        assert_eq!(read(&disk, "a").unwrap(), b"new");
    }
}
