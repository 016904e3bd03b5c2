use std::sync::mpsc::channel;
use std::thread::{self, ScopedJoinHandle};

use ebb_test_support::wait::{HANG, until};

use super::*;
use crate::error::Error;

fn come(groups: &Groups<u32>, members: usize) {
    until("the members to come", || {
        groups.state.lock().unwrap().members.len() == members
    });
}

fn all_well(members: Vec<u32>) -> Vec<Result<()>> {
    members.iter().map(|_| Ok(())).collect()
}

fn join_all<T>(threads: Vec<ScopedJoinHandle<'_, T>>) -> Vec<T> {
    let threads = threads.into_iter();
    threads.map(|thread| thread.join().unwrap()).collect()
}

/// The members of each group that was synced, in the order of the syncs.
type Synced = std::sync::Mutex<Vec<Vec<u32>>>;

fn commit(groups: &Groups<u32>, synced: &Synced, member: u32) -> Result<()> {
    let sync = |members: Vec<u32>| {
        synced.lock().unwrap().push(members.clone());
        members
    };
    groups.wait(groups.join(member), sync, all_well)
}

#[test]
fn commits_that_come_while_the_disk_is_busy_share_the_next_sync() {
    let (groups, synced) = (Groups::new(), Synced::default());
    thread::scope(|scope| {
        // A panic in here drops `free`, which ends the wait of the first thread.
        let (free, busy) = channel();
        let (groups, synced) = (&groups, &synced);
        let seat = groups.join(0);
        let first = scope.spawn(move || {
            let sync = |members| {
                busy.recv().unwrap();
                members
            };
            groups.wait(seat, sync, all_well)
        });
        until("the first sync to begin", || {
            groups.state.lock().unwrap().is_busy
        });
        let mut others = Vec::new();
        for member in 1..=5 {
            others.push(scope.spawn(move || commit(groups, synced, member)));
            come(groups, member as usize);
        }
        free.send(()).unwrap();
        first.join().unwrap().unwrap();
        join_all(others).into_iter().for_each(Result::unwrap);
    });
    assert_eq!(synced.into_inner().unwrap(), [[1, 2, 3, 4, 5]]);
}

#[test]
fn a_group_finishes_beside_the_sync_of_the_next() {
    let (groups, synced) = (Groups::new(), Synced::default());
    thread::scope(|scope| {
        // A panic in here drops `free`, which ends the wait of the first thread.
        let (free, busy) = channel();
        let groups = &groups;
        let seat = groups.join(0);
        let first = scope.spawn(move || {
            let finish = |members| {
                busy.recv().unwrap();
                all_well(members)
            };
            groups.wait(seat, |members| members, finish)
        });
        until("the first sync to end", || {
            let state = groups.state.lock().unwrap();
            state.members.is_empty() && !state.is_busy
        });
        commit(groups, &synced, 1).unwrap();
        free.send(()).unwrap();
        first.join().unwrap().unwrap();
    });
}

#[test]
fn each_member_gets_its_own_result() {
    let groups = Groups::new();
    let seats: Vec<_> = (0..4).map(|member| groups.join(member)).collect();
    let outcomes = thread::scope(|scope| {
        let wait = |seat| {
            let groups = &groups;
            scope.spawn(move || {
                let refused = |member: &u32| match member % 2 {
                    0 => Ok(()),
                    _ => Err(Error::InvalidRequest(member.to_string())),
                };
                let finish = |members: Vec<u32>| members.iter().map(refused).collect();
                groups.wait(seat, |members| members, finish)
            })
        };
        // The leader last: the others wait for it.
        let threads: Vec<_> = seats.into_iter().rev().map(wait).collect();
        let outcomes = join_all(threads).into_iter().rev();
        outcomes.map(|outcome| outcome.map_err(|e| e.to_string()))
    });
    let outcomes: Vec<_> = outcomes.collect();
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    for member in [1, 3] {
        let e = outcomes[member].as_ref().unwrap_err();
        assert!(e.contains(&member.to_string()), "{e}");
    }
}

#[test]
fn a_leader_that_panics_takes_its_group_along_and_no_other() {
    let (groups, synced) = (Groups::new(), Synced::default());
    let (leader, follower) = (groups.join(0), groups.join(1));
    thread::scope(|scope| {
        let wait = |seat| {
            let groups = &groups;
            scope.spawn(move || groups.wait(seat, |_| panic!("as it should"), all_well))
        };
        let threads = [wait(follower), wait(leader)];
        for thread in threads {
            thread.join().unwrap_err();
        }
    });
    commit(&groups, &synced, 2).unwrap();
    assert_eq!(synced.into_inner().unwrap(), [[2]]);
}

/// The recorded measurements are that the last group had one commit, and that two more joined the
/// next group during its sync. So a group waits until it has three commits: the first writer, which
/// was woken at the end of that sync, is expected to commit again.
#[test]
fn a_group_waits_for_writers_that_were_just_woken() {
    let (groups, synced) = (Groups::new(), Synced::default());
    // A group waits for half of a sync: longer than the test waits for a member.
    groups.state.lock().unwrap().delay.synced(1, 2, 4 * HANG);
    thread::scope(|scope| {
        let (groups, synced) = (&groups, &synced);
        let mut threads = Vec::new();
        for member in 0..3 {
            assert!(synced.lock().unwrap().is_empty());
            threads.push(scope.spawn(move || commit(groups, synced, member)));
            if member < 2 {
                come(groups, member as usize + 1);
            }
        }
        join_all(threads).into_iter().for_each(Result::unwrap);
    });
    assert_eq!(synced.into_inner().unwrap(), [[0, 1, 2]]);
}
