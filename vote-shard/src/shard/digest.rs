//! What proves that two copies are equal, and what stands for a voter.
//!
//! A digest is the number of rows and the sum, modulo 2^256, of a keyed hash
//! of each row. A sum does not depend on the order of rows, and a change
//! subtracts the old row and adds the new one. The key is the slice's own and
//! moves with it: nobody who chooses voter names can aim at a collision.

use std::fmt;
use std::hash::Hasher as _;

use ballast_domain::Entropy;
use ballast_domain::PollId;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use super::rows::{PollRow, Version};

/// The secret of a slice: keys its fingerprints and digests.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceKey([u8; 32]);

/// Stands for a voter within a slice: 128 bits of a keyed hash of the name.
///
/// Two voters of a poll with the same print would be taken for one. Among a
/// hundred million voters that has a chance of about 10^-23, and without the
/// key nobody can look for such names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VoterPrint(pub [u64; 2]);

/// Half of it is as good a hash as any; the second half, since what is sorted
/// by prints is grouped by the first.
impl std::hash::Hash for VoterPrint {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[1]);
    }
}

/// The digest of a set of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Digest {
    /// How many rows.
    pub rows: u64,
    /// The sum of their hashes, lowest limb first.
    pub sum: [u64; 4],
}

/// The digest of a whole slice: its polls, counted, and the sum over their own
/// rows and their voters'.
///
/// Every row's hash has the poll's id in it, so a sum over all of them proves as
/// much as one for each poll: equal sums, equal sets of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SliceDigest {
    /// How many polls.
    pub polls: u64,
    /// All rows: one for each poll, and the voters'.
    pub rows: Digest,
}

impl SliceDigest {
    /// The digest of a slice with these polls.
    pub fn of<'a>(polls: impl IntoIterator<Item = &'a Digest>) -> Self {
        let mut all = Self::default();
        for poll in polls {
            all.polls += 1;
            all.rows.merge(poll);
        }
        all
    }

    /// Rows of voters.
    pub fn votes(&self) -> u64 {
        self.rows.rows.saturating_sub(self.polls)
    }
}

impl SliceKey {
    /// A fresh key.
    pub fn random(entropy: &dyn Entropy) -> Self {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes);
        Self(bytes)
    }

    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What stands for a voter.
    pub fn print(&self, voter: &str) -> VoterPrint {
        // SipHash takes the key's first half; the digest takes all of it
        // through BLAKE3, which does not give it away.
        let mut half = [0; 16];
        half.copy_from_slice(&self.0[..16]);
        let mut hasher = SipHasher24::new_with_key(&half);
        hasher.write(voter.as_bytes());
        let hash = hasher.finish128();
        VoterPrint([hash.h1, hash.h2])
    }

    /// The hash of a voter's row.
    pub fn row(&self, poll: PollId, voter: VoterPrint, items: &[u16], version: Version) -> Hash {
        let mut bytes = [0; 64];
        bytes[..16].copy_from_slice(&poll.number().to_le_bytes());
        bytes[16..24].copy_from_slice(&voter.0[0].to_le_bytes());
        bytes[24..32].copy_from_slice(&voter.0[1].to_le_bytes());
        bytes[32..40].copy_from_slice(&version.epoch.0.to_le_bytes());
        bytes[40..44].copy_from_slice(&version.revision.to_le_bytes());
        bytes[44..46].copy_from_slice(&(items.len() as u16).to_le_bytes());
        // The usual row fits one block of the hash.
        if items.len() <= 9 {
            for (place, item) in items.iter().enumerate() {
                bytes[46 + 2 * place..48 + 2 * place].copy_from_slice(&item.to_le_bytes());
            }
            return Hash::of(blake3::keyed_hash(&self.0, &bytes));
        }
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&bytes);
        for item in items {
            hasher.update(&item.to_le_bytes());
        }
        Hash::of(hasher.finalize())
    }

    /// The hash of a poll's own row. It is made of the row's JSON, so that it
    /// covers whatever a poll will come to have.
    pub fn poll(&self, row: &PollRow) -> Hash {
        let json = serde_json::to_vec(row).unwrap_or_default();
        self.other("poll", &json)
    }

    /// The hash of anything else, under a name that keeps kinds apart.
    pub fn other(&self, kind: &str, bytes: &[u8]) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(kind.as_bytes());
        hasher.update(&[0]);
        hasher.update(bytes);
        Hash::of(hasher.finalize())
    }
}

/// One row's share in a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash([u64; 4]);

impl Hash {
    fn of(hash: blake3::Hash) -> Self {
        let mut limbs = [0; 4];
        for (limb, bytes) in limbs.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(bytes);
            *limb = u64::from_le_bytes(eight);
        }
        Self(limbs)
    }
}

impl Digest {
    /// Adds a row.
    pub fn add(&mut self, row: Hash) {
        self.add_limbs(row.0);
        self.rows = self.rows.wrapping_add(1);
    }

    /// Adds all rows of another digest.
    pub fn merge(&mut self, other: &Self) {
        self.add_limbs(other.sum);
        self.rows = self.rows.wrapping_add(other.rows);
    }

    fn add_limbs(&mut self, limbs: [u64; 4]) {
        let mut carry = false;
        for (limb, more) in self.sum.iter_mut().zip(limbs) {
            let (sum, first) = limb.overflowing_add(more);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, first || second);
        }
    }

    /// Takes all rows of another digest away.
    pub fn take(&mut self, other: &Self) {
        self.subtract_limbs(other.sum);
        self.rows = self.rows.wrapping_sub(other.rows);
    }

    /// The sum as text.
    pub fn hex(&self) -> String {
        let [a, b, c, d] = self.sum;
        format!("{d:016x}{c:016x}{b:016x}{a:016x}")
    }

    /// Takes a row away.
    pub fn subtract(&mut self, row: Hash) {
        self.subtract_limbs(row.0);
        self.rows = self.rows.wrapping_sub(1);
    }

    fn subtract_limbs(&mut self, limbs: [u64; 4]) {
        let mut borrow = false;
        for (limb, less) in self.sum.iter_mut().zip(limbs) {
            let (rest, first) = limb.overflowing_sub(less);
            let (rest, second) = rest.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (rest, first || second);
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {}", self.rows, self.hex())
    }
}

/// A key is a secret.
impl fmt::Debug for SliceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SliceKey(…)")
    }
}

impl fmt::Debug for VoterPrint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_domain::tenant::Epoch;
    use proptest::prelude::*;

    const KEY: SliceKey = SliceKey([7; 32]);

    fn row(voter: &str, items: &[u16], revision: u32) -> Hash {
        let version = Version {
            epoch: Epoch(1),
            revision,
        };
        KEY.row(PollId::from_number(5), KEY.print(voter), items, version)
    }

    #[test]
    fn the_hashes_are_pinned() {
        // They are compared between shards of different versions.
        assert_eq!(
            format!("{:?}", KEY.print("user-1")),
            "e9e1da45af17a2c3de963f1669d84c48"
        );
        let mut digest = Digest::default();
        digest.add(row("user-1", &[3], 1));
        digest.add(row("user-2", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 2));
        assert_eq!(
            format!("{digest:?}"),
            "2 rows, 9eedad775224091ce403995af75291ca1d6851ffb6865bf14cebe80d6c1304a5"
        );
    }

    proptest! {
        #[test]
        fn order_does_not_matter_and_taking_away_undoes(
            rows in prop::collection::vec((0u8..20, 0u16..12, 1u32..4), 1..40)
        ) {
            let hashes: Vec<_> = rows
                .iter()
                .map(|(voter, item, revision)| row(&voter.to_string(), &[*item], *revision))
                .collect();
            let (mut forward, mut backward) = (Digest::default(), Digest::default());
            hashes.iter().for_each(|hash| forward.add(*hash));
            hashes.iter().rev().for_each(|hash| backward.add(*hash));
            prop_assert_eq!(forward, backward);
            let mut twice = forward;
            twice.merge(&backward);
            twice.take(&forward);
            prop_assert_eq!(twice, backward);
            hashes.iter().for_each(|hash| forward.subtract(*hash));
            prop_assert_eq!(forward, Digest::default());
        }
    }

    #[test]
    fn a_row_of_one_poll_is_none_of_another() {
        let version = Version {
            epoch: Epoch(1),
            revision: 1,
        };
        let vote =
            |poll, voter: &str| KEY.row(PollId::from_number(poll), KEY.print(voter), &[1], version);
        let slice = |votes: [(u128, &str); 2]| {
            let mut polls = [Digest::default(); 2];
            for (poll, voter) in votes {
                polls[poll as usize].add(vote(poll, voter));
            }
            SliceDigest::of(&polls)
        };
        let one = slice([(0, "a"), (1, "b")]);
        assert_eq!((one.polls, one.rows.rows, one.votes()), (2, 2, 0));
        // As many rows, the same voters, the other way round.
        assert_ne!(slice([(0, "b"), (1, "a")]), one);
        assert_eq!(slice([(1, "b"), (0, "a")]), one);
    }

    #[test]
    fn every_field_counts() {
        let base = row("a", &[1], 1);
        for other in [
            row("b", &[1], 1),
            row("a", &[2], 1),
            row("a", &[1], 2),
            row("a", &[1, 1], 1),
            row("a", &[], 1),
        ] {
            assert!(base != other);
        }
    }
}
