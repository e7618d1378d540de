//! A disk in memory that is as bad as the contract allows.
//!
//! It keeps two worlds: what programs see (the page cache) and what would be
//! there after the power went (the platter). A crash throws the first away
//! and may carry over any part of what was not synced, sector by sector. A
//! sync can be made to fail, and then forgets what it should have written, as
//! operating systems do: the next sync succeeds and has written nothing.
//!
//! Beyond that, tests hold syncs open ([`SimulatedDisk::hold_syncs`]) and stop
//! the machine at any operation ([`SimulatedDisk::stop_in`]): whoever still
//! holds the disk then gets nothing but errors, and the disk that is found
//! after the crash is another one ([`SimulatedDisk::after`]).

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile};

/// What is written whole or not at all.
const SECTOR: usize = 512;

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Told when syncs that are held may go on.
    gate: Condvar,
}

/// How much of what was not synced survives a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process was killed: everything that was written is still seen, and
    /// nothing more of it is durable than before.
    Killed,
    /// The power went: of what was not synced, nothing survives.
    PowerLost,
    /// The power went, and each unsynced sector and name survived or not.
    PowerLostInTheMiddle,
}

#[derive(Default, Clone)]
struct State {
    /// Names as programs see them, and as they would be after a crash.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    files: Vec<Contents>,
    random: u64,
    /// Operations until the next failure; `None`: never.
    fail_sync_in: Option<u32>,
    /// Bytes that may still be written before the disk is full.
    room: Option<u64>,
    /// Whether nothing can be changed.
    read_only: bool,
    /// Whether syncs wait, and how many do.
    held: bool,
    waiting: usize,
    /// Whether syncs say that they worked and write nothing.
    lies: bool,
    /// Changes until the machine stops; `None`: it does not.
    stops_in: Option<u32>,
    stopped: bool,
}

#[derive(Default, Clone)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Sectors written since the last sync, whether it worked or not.
    dirty: Vec<usize>,
}

impl SimulatedDisk {
    /// An empty disk whose chances come from this seed.
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: seed.wrapping_mul(2) | 1,
            ..State::default()
        };
        Self::of(state)
    }

    fn of(state: State) -> Self {
        let state = Mutex::new(state);
        let gate = Condvar::new();
        Self {
            shared: Arc::new(Shared { state, gate }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let locked = self.shared.state.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for something that changes the disk.
    fn change(&self) -> io::Result<MutexGuard<'_, State>> {
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

    /// The same, for a sync, when it may begin.
    fn sync_begins(&self) -> io::Result<MutexGuard<'_, State>> {
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

    /// Lets every sync from now on wait until they are released.
    pub fn hold_syncs(&self) {
        self.state().held = true;
    }

    /// How many syncs wait.
    pub fn syncs_held(&self) -> usize {
        let state = self.state();
        if state.held { state.waiting } else { 0 }
    }

    /// Lets syncs go on.
    pub fn release_syncs(&self) {
        self.state().held = false;
        self.shared.gate.notify_all();
    }

    /// Lets every sync from now on say that it worked and write nothing. To
    /// whoever relies on it, it is as if nobody had waited for the sync.
    pub fn lie_about_syncs(&self) {
        self.state().lies = true;
    }

    /// Stops the machine at the n-th change from now (1 is the next), which
    /// does not happen.
    pub fn stop_in(&self, n: u32) {
        self.state().stops_in = Some(n);
    }

    /// The disk as it is found after the machine has stopped here and now.
    /// This one answers nothing but errors from now on.
    #[must_use]
    pub fn after(&self, crash: Crash) -> Self {
        let found = {
            let mut state = self.state();
            let found = State {
                held: false,
                waiting: 0,
                stops_in: None,
                stopped: false,
                fail_sync_in: None,
                ..state.clone()
            };
            state.stopped = true;
            self.shared.gate.notify_all();
            Self::of(found)
        };
        found.crash(crash);
        found
    }

    /// Lets the n-th sync from now fail (1 is the next).
    pub fn fail_sync(&self, n: u32) {
        self.state().fail_sync_in = Some(n);
    }

    /// Leaves room for so many more bytes; `None` for any number.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.state().room = bytes;
    }

    /// Lets every change fail, or work again, as when the operating system
    /// remounts a disk it has found errors on.
    pub fn set_read_only(&self, read_only: bool) {
        self.state().read_only = read_only;
    }

    /// Crashes. Files that are open see nothing of it and must be dropped.
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

    /// Changes a byte on the platter and in the cache: a disk that rots.
    pub fn flip(&self, name: &str, place: usize) {
        let mut state = self.state();
        if let Some(&file) = state.names.get(name) {
            for bytes in [&mut state.files[file].seen] {
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

impl State {
    fn check(&self) -> io::Result<()> {
        match self.stopped {
            true => Err(io::Error::other("the machine has stopped")),
            false => Ok(()),
        }
    }

    fn coin(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random & 0x100 != 0
    }

    /// Every name that differs is as it was at the last sync, or, if torn, at
    /// random as it is now.
    fn lose_names(&mut self, torn: bool) {
        let all: Vec<String> = self
            .names
            .keys()
            .chain(self.durable_names.keys())
            .cloned()
            .collect();
        for name in all {
            let (now, then) = (self.names.get(&name), self.durable_names.get(&name));
            if now != then && !(torn && self.coin()) {
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
            seen,
            mut durable,
            dirty,
        } = std::mem::take(&mut self.files[place]);
        for sector in dirty {
            if torn && self.coin() {
                copy_sector(&seen, &mut durable, sector);
            }
        }
        self.files[place] = Contents {
            seen: durable.clone(),
            durable,
            dirty: Vec::new(),
        };
    }

    /// Counts a sync; true when it is the one that fails.
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
    io::Error::new(io::ErrorKind::NotFound, format!("there is no {name}"))
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
}

impl DiskFile for SimulatedFile {
    fn write_at(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.change()?;
        let place = usize::try_from(place).map_err(io::Error::other)?;
        let end = place + bytes.len();
        let grown = end.saturating_sub(state.files[self.file].seen.len()) as u64;
        if let Some(room) = &mut state.room {
            if *room < grown {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *room -= grown;
        }
        let file = &mut state.files[self.file];
        if file.seen.len() < end {
            file.seen.resize(end, 0);
        }
        file.seen[place..end].copy_from_slice(bytes);
        file.dirty.extend(place / SECTOR..end.div_ceil(SECTOR));
        file.dirty.sort_unstable();
        file.dirty.dedup();
        Ok(())
    }

    fn read_at(&self, place: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.state();
        state.check()?;
        let seen = &state.files[self.file].seen;
        let place = usize::try_from(place)
            .map_err(io::Error::other)?
            .min(seen.len());
        let count = buffer.len().min(seen.len() - place);
        buffer[..count].copy_from_slice(&seen[place..place + count]);
        Ok(count)
    }

    fn bytes(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.check()?;
        Ok(state.files[self.file].seen.len() as u64)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.sync_begins()?;
        let fails = state.sync_fails();
        if state.lies && !fails {
            return Ok(());
        }
        let Contents {
            seen,
            durable,
            dirty,
        } = &mut state.files[self.file];
        let dirty = std::mem::take(dirty);
        if fails {
            // Forgotten: no later sync will write it.
            return Err(io::Error::other("the sync failed"));
        }
        for sector in dirty {
            copy_sector(seen, durable, sector);
        }
        Ok(())
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
    fn what_was_synced_survives_and_what_was_not_may_not() {
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
        assert_eq!(read(&disk, "a").unwrap(), b"new", "it is still seen");
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
    fn a_machine_that_stopped_answers_nothing_and_its_disk_is_found() {
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
        disk.set_room(Some(10));
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
