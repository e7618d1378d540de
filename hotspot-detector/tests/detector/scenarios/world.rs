//! A fleet generated from a seed, and its measurements.

use ballast_domain::poll::{ItemId, PollId};
use ballast_domain::tenant::SliceId;
use ballast_domain::{KeyId, ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::diagnose::Cure;
use ballast_hotspot_detector::load::{
    Flow, Interval, IoWait, ItemName, ItemSample, KeySample, LoadSample, ShardSample, Sketch,
    SliceSample,
};
use ballast_hotspot_detector::resources::Resources;

/// Random numbers from a seed (SplitMix64).
pub(crate) struct SeededRng(u64);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, many: usize) -> usize {
        (self.next() % many.max(1) as u64) as usize
    }
}

pub(crate) const STEP_MS: u64 = 10_000;
pub(crate) const START_MS: i64 = 1_800_000_000_000;

/// How a tenant's load changes with time, in minutes.
#[derive(Clone, Copy)]
pub(crate) enum LoadShape {
    Steady,
    Step {
        at: f64,
        factor: f64,
    },
    Pulse {
        at: f64,
        until: f64,
        factor: f64,
    },
    Wave {
        period: f64,
        factor: f64,
    },
    /// Single intervals, now and then.
    Jitter {
        factor: f64,
    },
}

pub(crate) struct SimulatedTenant {
    pub(crate) slice: SliceId,
    pub(crate) shard: usize,
    /// Its base load.
    pub(crate) base: Resources,
    pub(crate) shape: LoadShape,
}

/// A flooding key.
pub(crate) struct SimulatedFlood {
    pub(crate) tenant: usize,
    pub(crate) key: KeyId,
    pub(crate) calls: f64,
    pub(crate) refused: f64,
    pub(crate) concurrency: f64,
    pub(crate) at: f64,
    pub(crate) limit: Option<f64>,
}

/// A popular item.
pub(crate) struct SimulatedCounter {
    pub(crate) tenant: usize,
    pub(crate) name: ItemName,
    pub(crate) votes: f64,
    pub(crate) lanes: Vec<u64>,
    pub(crate) at: f64,
    pub(crate) until: f64,
    /// The share of the time that writes wait while it is too hot.
    pub(crate) waits: f64,
}

pub(crate) struct SimulatedShard {
    pub(crate) name: ShardId,
    pub(crate) region: &'static str,
    pub(crate) capacity: Resources,
    /// The share of the time that writes wait without load.
    pub(crate) sick: f64,
}

pub(crate) struct SimulatedFleet {
    pub(crate) chance: SeededRng,
    pub(crate) shards: Vec<SimulatedShard>,
    pub(crate) tenants: Vec<SimulatedTenant>,
    /// The number of tenants created so far.
    named: usize,
    pub(crate) floods: Vec<SimulatedFlood>,
    pub(crate) counters: Vec<SimulatedCounter>,
    /// The measurement error.
    pub(crate) noise: f64,
    /// How often a shard is not measured.
    pub(crate) gaps: f64,
    /// Whether splitting divides the load; if not, one part keeps all of it.
    pub(crate) comes_apart: bool,
}

pub(crate) fn poll(number: u64) -> PollId {
    PollId::from_number(u128::from(number))
}

impl SimulatedFleet {
    /// A fleet without hotspots: every shard about a third full, with many small tenants.
    pub(crate) fn calm(seed: u64) -> Self {
        let mut chance = SeededRng::new(seed);
        let scale = chance.between(0.5, 2.0);
        let capacity = Resources {
            votes: 20_000.0 * scale,
            queries: 4_000.0 * scale,
            bytes: 40e6 * scale,
            storage: 400e9 * scale,
            concurrency: 256.0 * scale,
        };
        let shards: Vec<_> = (1..=6 + chance.below(4))
            .map(|number| SimulatedShard {
                name: format!("shard-{number}").parse().unwrap(),
                region: "eu",
                capacity,
                sick: 0.0,
            })
            .collect();
        let mut world = Self {
            chance,
            shards,
            tenants: Vec::new(),
            named: 0,
            floods: Vec::new(),
            counters: Vec::new(),
            noise: 0.10,
            gaps: 0.0,
            comes_apart: true,
        };
        for shard in 0..world.shards.len() {
            let tenants = 8 + world.chance.below(10);
            let fill = world.chance.between(0.25, 0.40);
            world.settle(shard, tenants, fill);
        }
        world
    }

    /// Adds tenants that together fill a shard up to `fill`, none of them above a quarter of it.
    pub(crate) fn settle(&mut self, shard: usize, tenants: usize, fill: f64) {
        let weights: Vec<_> = (0..tenants)
            .map(|_| self.chance.between(0.4, 1.6))
            .collect();
        let sum: f64 = weights.iter().sum();
        for weight in weights {
            let share = fill * weight / sum;
            self.tenant(shard, share);
        }
    }

    /// Adds a tenant that uses this share of its shard, slightly less in some dimensions.
    pub(crate) fn tenant(&mut self, shard: usize, share: f64) -> usize {
        let number = self.tenants.len();
        self.named += 1;
        let capacity = self.shards[shard].capacity;
        let mut base = capacity.times(share);
        base.queries *= self.chance.between(0.7, 1.0);
        base.bytes *= self.chance.between(0.5, 0.9);
        base.concurrency *= self.chance.between(0.6, 0.9);
        base.storage *= self.chance.between(0.6, 1.0);
        let tenant_id: TenantId = format!("tenant-{}", self.named).parse().unwrap();
        let slice = SliceId {
            tenant_id,
            slice: 0,
        };
        self.tenants.push(SimulatedTenant {
            slice,
            shard,
            base,
            shape: LoadShape::Steady,
        });
        number
    }

    pub(crate) fn some_shard(&mut self) -> usize {
        self.chance.below(self.shards.len())
    }

    pub(crate) fn some_tenant_on(&mut self, shard: usize) -> usize {
        let here: Vec<_> = (0..self.tenants.len())
            .filter(|at| self.tenants[*at].shard == shard)
            .collect();
        here[self.chance.below(here.len())]
    }

    pub(crate) fn fill(&self, shard: usize) -> f64 {
        let here = self.tenants.iter().filter(|tenant| tenant.shard == shard);
        let sum = here.fold(Resources::default(), |sum, tenant| sum + tenant.base);
        sum.fill(&self.shards[shard].capacity).1
    }

    fn wobble(&mut self) -> f64 {
        1.0 + self.chance.between(-self.noise, self.noise)
    }

    /// The sample of a step.
    pub(crate) fn sample(&mut self, step: u64) -> LoadSample {
        let start = Timestamp::from_unix_ms(START_MS + (step * STEP_MS) as i64);
        let minute = step as f64 / 6.0;
        let mut shards = Vec::new();
        for at in 0..self.shards.len() {
            if self.chance.between(0.0, 1.0) < self.gaps {
                continue;
            }
            shards.push(self.shard_sample(at, minute));
        }
        LoadSample {
            interval: Interval { start, ms: STEP_MS },
            shards,
        }
    }

    fn shard_sample(&mut self, at: usize, minute: f64) -> ShardSample {
        let seconds = STEP_MS as f64 / 1_000.0;
        let shard = &self.shards[at];
        let region = shard.region.parse().unwrap();
        let mut sample = ShardSample::new(shard.name.clone(), region, shard.capacity);
        let (capacity, mut waits) = (shard.capacity, shard.sick);
        let mut used = Resources::default();
        for number in 0..self.tenants.len() {
            if self.tenants[number].shard != at {
                continue;
            }
            let (slice, now, keys) = self.tenant_sample(number, minute, seconds);
            used += now;
            sample.slices.push(slice);
            sample.keys.extend(keys);
        }
        for counter in &mut self.counters {
            let tenant = &self.tenants[counter.tenant];
            if tenant.shard != at || minute < counter.at {
                continue;
            }
            let wanted = if minute < counter.until {
                counter.votes
            } else {
                counter.votes * 0.005
            };
            let most = counter.lanes.len() as f64 * 1_000.0;
            let votes = wanted.min(most);
            let each = votes * seconds / counter.lanes.len() as f64;
            counter
                .lanes
                .iter_mut()
                .for_each(|lane| *lane += each as u64);
            if wanted > most * 0.8 {
                waits += counter.waits;
            }
            used.votes += votes;
            let throttled_calls = (wanted - votes) * seconds;
            let slice = sample
                .slices
                .iter_mut()
                .find(|slice| slice.slice == tenant.slice)
                .unwrap();
            slice.flow.votes += votes * seconds;
            slice.flow.throttles += throttled_calls;
            sample.items.push(ItemSample {
                name: counter.name.clone(),
                votes: votes * seconds,
                lanes: counter.lanes.clone(),
            });
        }
        for slice in &sample.slices {
            let flow = slice.flow;
            sample.flow.votes += flow.votes;
            sample.flow.queries += flow.queries;
            sample.flow.bytes += flow.bytes;
            sample.flow.errors += flow.errors;
            sample.flow.throttles += flow.throttles;
        }
        sample.storage = Some(used.storage);
        sample.concurrency = Some(used.concurrency);
        let fill = used.fill(&capacity).1;
        waits = (waits + fill * 0.3).min(1.0);
        sample.io_wait = Some(IoWait {
            queue: waits * 0.6,
            fsync: waits * 0.4,
        });
        // Latency grows with the fill, as in a queue.
        let slow = 1.0 / (1.0 - (fill * 0.9).min(0.995));
        let queries = (sample.flow.queries as u64).max(1);
        sample.query_latency =
            Sketch::from_percentiles(queries, 8.0 * slow, 60.0 * slow, 200.0 * slow);
        let votes = (sample.flow.votes as u64).max(1);
        sample.vote_latency = Sketch::from_percentiles(votes, 1.0 * slow, 3.0 * slow, 9.0 * slow);
        sample
    }

    /// A tenant's measurements, what it uses, and its keys.
    fn tenant_sample(
        &mut self,
        number: usize,
        minute: f64,
        seconds: f64,
    ) -> (SliceSample, Resources, Vec<KeySample>) {
        let jitters = self.chance.between(0.0, 1.0) < 0.02;
        let wobble = self.wobble();
        let tenant = &self.tenants[number];
        let factor = wobble
            * match tenant.shape {
                LoadShape::Steady => 1.0,
                LoadShape::Step { at, factor } => {
                    if minute < at {
                        1.0
                    } else {
                        factor
                    }
                }
                LoadShape::Pulse { at, until, factor } => {
                    if (at..until).contains(&minute) {
                        factor
                    } else {
                        1.0
                    }
                }
                LoadShape::Wave { period, factor } => {
                    if minute % period < period / 2.0 {
                        factor
                    } else {
                        1.0
                    }
                }
                LoadShape::Jitter { factor } => {
                    if jitters {
                        factor
                    } else {
                        1.0
                    }
                }
            };
        let mut used = tenant.base.times(factor);
        used.storage = tenant.base.storage;
        let mut flow = Flow {
            votes: used.votes * seconds,
            queries: used.queries * seconds,
            bytes: used.bytes * seconds,
            ..Flow::default()
        };
        let tenant_id = tenant.slice.tenant_id.clone();
        let key = |n: usize| -> KeyId { format!("key-{number}-{n}").parse().unwrap() };
        let calls = flow.calls();
        let mut keys: Vec<_> = [0.7, 0.3]
            .iter()
            .enumerate()
            .map(|(n, part)| KeySample {
                key: key(n),
                tenant: tenant_id.clone(),
                calls: calls * part,
                refused: calls * part * 0.01,
            })
            .collect();
        for flood in self
            .floods
            .iter()
            .filter(|flood| flood.tenant == number && minute >= flood.at)
        {
            let allowed = flood
                .limit
                .map_or(1.0, |limit| (limit / flood.calls).min(1.0));
            let calls = flood.calls * allowed * wobble;
            flow.queries += calls * (1.0 - flood.refused) * seconds;
            flow.errors += calls * flood.refused * seconds;
            used.queries += calls * (1.0 - flood.refused);
            used.concurrency += flood.concurrency * allowed * wobble;
            keys.push(KeySample {
                key: flood.key.clone(),
                tenant: tenant_id.clone(),
                calls: calls * seconds,
                refused: calls * flood.refused * seconds,
            });
        }
        let sample = SliceSample {
            slice: tenant.slice.clone(),
            flow,
            storage: Some(tenant.base.storage),
            concurrency: used.concurrency,
        };
        (sample, used, keys)
    }

    /// Applies a cure, as the product would.
    pub(crate) fn cure(&mut self, cure: &Cure) {
        match cure {
            Cure::Throttle { key, to, .. } => {
                let floods = self.floods.iter_mut().filter(|flood| flood.key == *key);
                floods.for_each(|flood| flood.limit = Some(*to));
            }
            Cure::Lanes { item, to, .. } => {
                for counter in self
                    .counters
                    .iter_mut()
                    .filter(|counter| counter.name == *item)
                {
                    let sum: u64 = counter.lanes.iter().sum();
                    counter.lanes = vec![sum / u64::from(*to); usize::from(*to)];
                }
            }
            Cure::Move { slices, .. } => {
                for placed in slices {
                    let to = self
                        .shards
                        .iter()
                        .position(|shard| shard.name == placed.to)
                        .unwrap();
                    let tenant = self
                        .tenants
                        .iter_mut()
                        .find(|tenant| tenant.slice == placed.slice)
                        .unwrap();
                    tenant.shard = to;
                }
            }
            Cure::Split { slice, parts, .. } => self.split(slice, *parts),
            Cure::AddShards { region, count } => self.add_shards(region.as_str(), *count),
            Cure::Wait { .. } | Cure::Nothing => {}
        }
    }

    fn split(&mut self, slice: &SliceId, parts: u32) {
        let at = self
            .tenants
            .iter()
            .position(|tenant| tenant.slice == *slice)
            .unwrap();
        let whole = self.tenants[at].base;
        let base = match self.comes_apart {
            true => whole.times(1.0 / f64::from(parts)),
            false => whole.times(1e-6),
        };
        if self.comes_apart {
            self.tenants[at].base = base;
        } else {
            // A split slice gets a new number.
            self.tenants[at].slice.slice = slice.slice + parts;
        }
        let (from, shape) = (self.tenants[at].shard, self.tenants[at].shape);
        let mut free: Vec<_> = (0..self.shards.len())
            .filter(|shard| *shard != from)
            .collect();
        free.sort_by(|a, b| self.fill(*a).total_cmp(&self.fill(*b)));
        for part in 1..parts {
            let shard = free[(part as usize - 1) % free.len()];
            let slice = SliceId {
                slice: part,
                ..slice.clone()
            };
            self.tenants.push(SimulatedTenant {
                slice,
                shard,
                base,
                shape,
            });
        }
    }

    /// Adds shards and spreads the load evenly, as the planner would next.
    fn add_shards(&mut self, region: &str, count: u32) {
        let first = self.shards.len();
        let region = self
            .shards
            .iter()
            .find(|shard| shard.region == region)
            .unwrap()
            .region;
        for number in 0..count as usize {
            let capacity = self.shards[0].capacity;
            let name = format!("shard-{}", first + number + 1).parse().unwrap();
            self.shards.push(SimulatedShard {
                name,
                region,
                capacity,
                sick: 0.0,
            });
        }
        let here: Vec<_> = (0..self.shards.len())
            .filter(|at| self.shards[*at].region == region)
            .collect();
        let mut tenants: Vec<_> = (0..self.tenants.len())
            .filter(|at| here.contains(&self.tenants[*at].shard))
            .collect();
        tenants.sort_by(|a, b| {
            self.tenants[*b]
                .base
                .votes
                .total_cmp(&self.tenants[*a].base.votes)
        });
        let mut fill = vec![0.0; here.len()];
        for tenant in tenants {
            let emptiest = (0..here.len())
                .min_by(|a, b| f64::total_cmp(&fill[*a], &fill[*b]))
                .unwrap();
            fill[emptiest] += self.tenants[tenant].base.votes;
            self.tenants[tenant].shard = here[emptiest];
        }
    }

    pub(crate) fn item(&self, tenant: usize) -> ItemName {
        let poll = poll(77 + tenant as u64);
        ItemName {
            slice: self.tenants[tenant].slice.clone(),
            poll,
            item: ItemId::from_position(poll, 0),
        }
    }
}
