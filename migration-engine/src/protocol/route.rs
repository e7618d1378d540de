//! How a slice's record changes: every transition that a compare-and-swap may
//! make of it, and no other.
//!
//! ```text
//!            claim                 seal                    commit
//!   (none) ────────► Copying ◄───────────► Sealing(E) ────────────► Window
//!                       │       retreat        │                   │      │
//!                       └──── abort ────┐      └─ abort: epoch     │      │ reverse: a new
//!                                       ▼        above E ─┐        │      │ move, Copying
//!   (none) ◄── release ────────────── Aborting ◄──────────┘        │      ▼
//!   (none) ◄── release ── Cleaning ◄──────────────────── clean ────┘
//!                                   relax: Window, and no longer sync
//!
//!   without an owner that is away for good:
//!   Window ── forsake ──► Copying ── seal ──► Sealing(E) ── give_up ──► Window
//!                                                                         │
//!   (none) ◄──────────────────────── release ─────────────────────────────┘
//! ```
//! A way back that was begun with its owner is given up from `Sealing(E)` on. One
//! that forsakes its owner only goes on: nobody can say what that has become, so
//! there is nothing to retreat to.
//! Epochs are never given out twice: each transition that needs one takes the
//! next above all that were ever spent.

use ballast_domain::moving::{Ended, MoveId, Moving, Phase, Route};
use ballast_domain::tenant::Epoch;

/// Why a record is not changed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another move is at work.
    #[error("the move {} is at work on the slice", .0.0)]
    Busy(MoveId),
    /// The slice is where it should go.
    #[error("the slice is there already")]
    There,
    /// The move is not at work on the slice.
    #[error("the move is not at work on the slice")]
    NotMoving,
    /// Where it goes to, less may be than it had: only a way back gives up.
    #[error("only a move that goes back gives anything up")]
    Forth,
    /// It goes back without its owner, and only goes on.
    #[error("the move gives its owner up")]
    GivesUp,
    /// The move is not that far, or farther.
    #[error("the move is {0:?}")]
    Phase(Phase),
}

type Changed<S> = Result<Route<S>, Refused>;

fn fresh<S>(route: &Route<S>) -> Epoch {
    Epoch(route.spent.0 + 1)
}

fn at_work<S: Clone>(route: &Route<S>, id: &MoveId) -> Result<Moving<S>, Refused> {
    route.move_of(id).cloned().ok_or(Refused::NotMoving)
}

fn with<S>(route: Route<S>, moving: Moving<S>, phase: Phase) -> Route<S> {
    Route {
        moving: Some(Moving { phase, ..moving }),
        ..route
    }
}

/// A move begins. With `sync`, whatever is written after its cutover is
/// acknowledged when both sides have it.
pub fn claim<S: Clone + PartialEq>(route: &Route<S>, id: &MoveId, to: S, sync: bool) -> Changed<S> {
    if let Some(other) = &route.moving {
        return Err(Refused::Busy(other.move_id.clone()));
    }
    if to == route.owner {
        return Err(Refused::There);
    }
    Ok(begun(route, id, to, sync))
}

fn begun<S: Clone>(route: &Route<S>, id: &MoveId, to: S, sync: bool) -> Route<S> {
    let prepared = fresh(route);
    Route {
        spent: prepared,
        moving: Some(Moving {
            move_id: id.clone(),
            from: route.owner.clone(),
            to,
            prepared,
            gives_up: false,
            sync,
            phase: Phase::Copying,
        }),
        ..route.clone()
    }
}

/// The source is to be sealed from now on.
pub fn seal<S: Clone>(route: &Route<S>, id: &MoveId) -> Changed<S> {
    let moving = at_work(route, id)?;
    match moving.phase {
        Phase::Copying => {
            let epoch = fresh(route);
            let route = Route {
                spent: epoch,
                ..route.clone()
            };
            Ok(with(route, moving, Phase::Sealing { epoch }))
        }
        other => Err(Refused::Phase(other)),
    }
}

/// The target owns the slice: the point of no return.
pub fn commit<S: Clone>(route: &Route<S>, id: &MoveId) -> Changed<S> {
    let moving = at_work(route, id)?;
    match moving.gives_up {
        true => Err(Refused::GivesUp),
        false => owned(route, moving),
    }
}

/// The target owns the slice at the epoch of the seal.
fn owned<S: Clone>(route: &Route<S>, moving: Moving<S>) -> Changed<S> {
    match moving.phase {
        Phase::Sealing { epoch } => {
            let route = Route {
                owner: moving.to.clone(),
                epoch,
                ..route.clone()
            };
            Ok(with(route, moving, Phase::Window))
        }
        other => Err(Refused::Phase(other)),
    }
}

/// The target owns the slice although the source was never sealed, and nobody
/// knows what else it has: that is given up. Of this and of [`commit`] only one
/// can happen. There is no window after it: nothing is compared with the source,
/// gone back to, or removed there.
pub fn give_up<S: Clone>(route: &Route<S>, id: &MoveId) -> Changed<S> {
    let mut moving = at_work(route, id)?;
    if !id.is_back() {
        return Err(Refused::Forth);
    }
    moving.gives_up = true;
    owned(route, moving)
}

/// The slice goes back without its owner, which is neither looked at nor told.
/// It may not even know that it owns the slice; so it cannot be gone back to.
pub fn forsake<S: Clone>(route: &Route<S>, id: &MoveId, back: &MoveId) -> Changed<S> {
    let mut then = reverse(route, id, back)?;
    if let Some(moving) = &mut then.moving {
        moving.gives_up = true;
    }
    Ok(then)
}

/// Not now: the source takes votes again, at a newer epoch, and the copy goes
/// on. A seal that comes late finds nothing to seal.
pub fn retreat<S: Clone>(route: &Route<S>, id: &MoveId) -> Changed<S> {
    let moving = at_work(route, id)?;
    match moving.phase {
        _ if moving.gives_up => Err(Refused::GivesUp),
        Phase::Sealing { .. } => {
            let epoch = fresh(route);
            let route = Route {
                epoch,
                spent: epoch,
                ..route.clone()
            };
            Ok(with(route, moving, Phase::Copying))
        }
        other => Err(Refused::Phase(other)),
    }
}

/// It is not to be. Once the source may have been sealed, its owner goes on at
/// a newer epoch, so that a seal that comes late finds nothing to seal.
pub fn abort<S: Clone>(route: &Route<S>, id: &MoveId) -> Changed<S> {
    let moving = at_work(route, id)?;
    match moving.phase {
        _ if moving.gives_up => Err(Refused::GivesUp),
        Phase::Copying => Ok(with(route.clone(), moving, Phase::Aborting)),
        Phase::Sealing { .. } => {
            let epoch = fresh(route);
            let route = Route {
                epoch,
                spent: epoch,
                ..route.clone()
            };
            Ok(with(route, moving, Phase::Aborting))
        }
        other => Err(Refused::Phase(other)),
    }
}

/// The slice goes back: a move of its own, to where its copy still is.
pub fn reverse<S: Clone>(route: &Route<S>, id: &MoveId, back: &MoveId) -> Changed<S> {
    let moving = at_work(route, id)?;
    match moving.phase {
        Phase::Window if !moving.gives_up => {
            let last = Some(Ended {
                move_id: id.clone(),
                moved: true,
            });
            let route = Route {
                last,
                ..route.clone()
            };
            // What was promised to voters holds until it is back.
            Ok(begun(&route, back, moving.from, moving.sync))
        }
        other => Err(Refused::Phase(other)),
    }
}

/// From now on the owner alone acknowledges: the copy is away, and somebody wants
/// votes to be taken rather than to wait for it; or it is wrong, and made anew.
/// There is no return to both: what is written meanwhile may be on one side only.
pub fn relax<S: Clone>(route: &Route<S>, id: &MoveId) -> Changed<S> {
    let mut moving = at_work(route, id)?;
    let phase = moving.phase;
    if moving.gives_up || moving.also_durable_on().is_none() {
        return Err(Refused::Phase(phase));
    }
    moving.sync = false;
    Ok(with(route.clone(), moving, phase))
}

/// The source's copy is to be removed: there is no way back any more.
pub fn clean<S: Clone>(route: &Route<S>, id: &MoveId) -> Changed<S> {
    let moving = at_work(route, id)?;
    match moving.phase {
        Phase::Window if !moving.gives_up => Ok(with(route.clone(), moving, Phase::Cleaning)),
        other => Err(Refused::Phase(other)),
    }
}

/// The move is over.
pub fn release<S: Clone>(route: &Route<S>, id: &MoveId) -> Changed<S> {
    let moving = at_work(route, id)?;
    let moved = match moving.phase {
        Phase::Cleaning => true,
        Phase::Window if moving.gives_up => true,
        Phase::Aborting => false,
        other => return Err(Refused::Phase(other)),
    };
    let last = Some(Ended {
        move_id: moving.move_id,
        moved,
    });
    Ok(Route {
        moving: None,
        last,
        ..route.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> MoveId {
        MoveId("m-back".to_owned())
    }

    /// A record with the move in each phase, and without one.
    fn records() -> [(&'static str, Route<u8>); 9] {
        let placed = Route::placed(0);
        let copying = claim(&placed, &id(), 1, false).unwrap();
        let sealing = seal(&copying, &id()).unwrap();
        let aborting = abort(&sealing, &id()).unwrap();
        let window = commit(&sealing, &id()).unwrap();
        let given_up = give_up(&sealing, &id()).unwrap();
        let forth = MoveId("m".to_owned());
        let there = claim(&placed, &forth, 1, true).and_then(|route| seal(&route, &forth));
        let there = there.and_then(|route| commit(&route, &forth)).unwrap();
        let forsaken = forsake(&there, &forth, &id()).unwrap();
        let leaving = seal(&forsaken, &id()).unwrap();
        let cleaning = clean(&window, &id()).unwrap();
        [
            ("none", placed),
            ("copying", copying),
            ("sealing", sealing),
            ("aborting", aborting),
            ("window", window),
            ("cleaning", cleaning),
            ("forsaken", forsaken),
            ("leaving", leaving),
            ("given up", given_up),
        ]
    }

    fn told(changed: &Changed<u8>) -> String {
        match changed {
            Err(Refused::Busy(_)) => "busy".to_owned(),
            Err(Refused::There) => "there".to_owned(),
            Err(_) => "-".to_owned(),
            Ok(route) => {
                let gives_up = route.moving.as_ref().is_some_and(|moving| moving.gives_up);
                let phase = match route.moving.as_ref().map(|moving| moving.phase) {
                    Some(Phase::Window) if gives_up => "gives up",
                    Some(Phase::Copying) if gives_up => "forsakes",
                    None => "none",
                    Some(Phase::Copying) => "copying",
                    Some(Phase::Sealing { .. }) => "sealing",
                    Some(Phase::Aborting) => "aborting",
                    Some(Phase::Window) => "window",
                    Some(Phase::Cleaning) => "cleaning",
                };
                format!(
                    "{phase} {}@{}/{}",
                    route.owner, route.epoch.0, route.spent.0
                )
            }
        }
    }

    /// What every transition makes of every record: the phase, and owner @ epoch
    /// / epochs spent. Of a window either `clean` or `reverse` can come, and of
    /// what they make neither the other; of a seal either `commit`, `give_up` or
    /// `abort`. What gives its owner up only goes on.
    const TABLE: &str = "\
record   claim          seal           commit         give_up        retreat        abort          clean          reverse        forsake        release
none     copying 0@1/2  -              -              -              -              -              -              -              -              -
copying  busy           sealing 0@1/3  -              -              -              aborting 0@1/2 -              -              -              -
sealing  busy           -              window 1@3/3   gives up 1@3/3 copying 0@4/4  aborting 0@4/4 -              -              -              -
aborting busy           -              -              -              -              -              -              -              -              none 0@4/4
window   busy           -              -              -              -              -              cleaning 1@3/3 copying 1@3/4  forsakes 1@3/4 -
cleaning busy           -              -              -              -              -              -              -              -              none 1@3/3
forsaken busy           sealing 1@3/5  -              -              -              -              -              -              -              -
leaving  busy           -              -              gives up 0@5/5 -              -              -              -              -              -
given up busy           -              -              -              -              -              -              -              -              none 1@3/3
";

    #[test]
    fn every_transition_of_every_record() {
        type Transition = fn(&Route<u8>) -> Changed<u8>;
        let transitions: [(&str, Transition); 10] = [
            ("claim", |route| {
                claim(route, &MoveId("n".to_owned()), 1 - route.owner, false)
            }),
            ("seal", |route| seal(route, &id())),
            ("commit", |route| commit(route, &id())),
            ("give_up", |route| give_up(route, &id())),
            ("retreat", |route| retreat(route, &id())),
            ("abort", |route| abort(route, &id())),
            ("clean", |route| clean(route, &id())),
            ("reverse", |route| {
                reverse(route, &id(), &MoveId("b".to_owned()))
            }),
            ("forsake", |route| {
                forsake(route, &id(), &MoveId("b".to_owned()))
            }),
            ("release", |route| release(route, &id())),
        ];
        let heads = transitions.iter().map(|(name, _)| format!("{name:15}"));
        let heads: String = heads.collect();
        let mut table = format!("{:9}{}\n", "record", heads.trim_end());
        for (name, route) in records() {
            let cells = transitions.iter().map(|(_, transition)| {
                let told = told(&transition(&route));
                format!("{told:15}")
            });
            let cells: String = cells.collect();
            table += &format!("{name:9}{}\n", cells.trim_end());
        }
        assert_eq!(table, TABLE, "\n{table}");
    }

    #[test]
    fn nobody_elses_move_is_changed() {
        let other = MoveId("n".to_owned());
        for (name, route) in records() {
            let refused = [
                seal(&route, &other),
                commit(&route, &other),
                give_up(&route, &other),
                retreat(&route, &other),
                abort(&route, &other),
                clean(&route, &other),
                relax(&route, &other),
                reverse(&route, &other, &id()),
                forsake(&route, &other, &id()),
                release(&route, &other),
            ];
            for (place, changed) in refused.into_iter().enumerate() {
                assert_eq!(changed, Err(Refused::NotMoving), "{name} {place}");
            }
        }
        let there = claim(&Route::placed(0), &other, 0, false);
        assert_eq!(there, Err(Refused::There));
    }

    #[test]
    fn both_sides_acknowledge_until_the_record_says_otherwise() {
        let forth = MoveId("m".to_owned());
        let copying = claim(&Route::placed(0), &forth, 1, true).unwrap();
        let sealing = seal(&copying, &forth).unwrap();
        let window = commit(&sealing, &forth).unwrap();
        let is_sync = |route: &Route<u8>| route.moving.as_ref().is_some_and(|it| it.sync);
        let back = forth.back();
        for then in [
            reverse(&window, &forth, &back),
            forsake(&window, &forth, &back),
        ] {
            assert!(is_sync(&then.unwrap()), "it holds on the way back, too");
        }
        assert!(relax(&copying, &forth).is_err() && relax(&sealing, &forth).is_err());
        let turned = reverse(&window, &forth, &back).unwrap();
        assert!(!is_sync(&relax(&turned, &back).unwrap()));
        let forsaken = forsake(&window, &forth, &back).unwrap();
        assert!(relax(&forsaken, &back).is_err(), "it is relied upon");
        let relaxed = relax(&window, &forth).unwrap();
        assert!(!is_sync(&relaxed));
        assert!(relax(&relaxed, &forth).is_err());
        assert!(!is_sync(&reverse(&relaxed, &forth, &back).unwrap()));
        assert_eq!(relaxed.epoch, window.epoch);
    }

    #[test]
    fn only_a_way_back_gives_up() {
        let forth = MoveId("m".to_owned());
        let copying = claim(&Route::placed(0), &forth, 1, false).unwrap();
        let sealing = seal(&copying, &forth).unwrap();
        assert_eq!(give_up(&sealing, &forth), Err(Refused::Forth));
    }
}
