//! The sorted list of a memtable's versions: many threads insert and read it at
//! once, and nothing is ever removed.
//!
//! ```text
//!   level 2   head ──────────────► b9 ─────────────────► ·
//!   level 1   head ──────► a4 ───► b9 ─────────► c1 ───► ·
//!   level 0   head ► a7 ─► a4 ───► b9 ─► b2 ───► c1 ───► ·
//! ```
//!
//! [`super::node`] defines the memory layout of a node.
//!
//! An operand's node has one more link: to a *fold*, a node on no level, once a reader stored one
//! there ([`SkipList::leave_fold`]).
//!
//! A node is one piece of the [`Arena`], so a step of a search touches the memory
//! of one node, and most comparisons end in the first 16 bytes of the key, which
//! are compared as two integers.
//!
//! Invariants: a node is complete before a link leads to it and never changes but for its
//! links; level 0 has every node that is linked anywhere; each level is in order (see
//! [`crate::key`]). A search that misses a node ran before the node was inserted.

#![expect(
    unsafe_code,
    reason = "its nodes are linked by pointers that threads read without a lock"
)]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::arena::Arena;
use super::node::{HEIGHT_MAX, Header, Link, Node, PREFIX_BYTES, Prefix};
use super::pool::ChunkPool;
use crate::key::{Kind, SeqNo};
use crate::sync::Ordering;
use crate::sync::in_place::{AtomicUsize, Complete};

/// The greatest size, in bytes, of an inserted value that is stored in the arena. Each reader copies such
/// a value, so that a value which a reader keeps does not keep the memtable in memory. Larger values are
/// stored outside of the arena, and readers share their memory.
pub(super) const COPIED_BYTES_MAX: usize = 4 << 10;

/// The greatest number of steps by which a search goes on from the result of an earlier search:
/// beyond that, a search from the top level costs less.
const STEPS_MAX: usize = 4;

/// The target of a search: a position in the order of the versions (by key, then newest first).
#[derive(Clone, Copy)]
struct Target<'a> {
    prefix: Prefix,
    key: &'a [u8],
    seq: SeqNo,
}

impl<'a> Target<'a> {
    fn new(key: &'a [u8], seq: SeqNo) -> Self {
        Self {
            prefix: Prefix::of(key),
            key,
            seq,
        }
    }

    /// Returns whether this position comes after `entry`, in the order of the list.
    #[inline(always)]
    fn is_after(&self, entry: Entry<'_>) -> bool {
        let header = entry.header();
        if header.prefix != self.prefix {
            return header.prefix < self.prefix;
        }
        self.is_after_equal_prefix(entry)
    }

    #[inline]
    fn is_after_equal_prefix(&self, entry: Entry<'_>) -> bool {
        let (key, header) = (entry.key(), entry.header());
        // Of a key that ends within the prefix the other one is a continuation,
        // or would have another prefix.
        let by_key = match (key.get(PREFIX_BYTES..), self.key.get(PREFIX_BYTES..)) {
            (Some(tail), Some(target_tail)) => tail.cmp(target_tail),
            _ => key.len().cmp(&self.key.len()),
        };
        by_key.then(self.seq.cmp(&header.seq)).is_lt()
    }
}

/// A version in a list.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// The node. The provenance of the pointer covers the node's whole piece of the arena, so that
    /// the links, the key and the value can be reached from the pointer.
    node: NonNull<Node>,
    list: PhantomData<&'a SkipList>,
}

impl<'a> Entry<'a> {
    /// Wraps a pointer to a node.
    ///
    /// # Safety
    /// The node is in the arena of a list that lives for as long as `'a`. The pointer was loaded with
    /// Acquire from a link of that list, or only this thread has it.
    unsafe fn new(node: NonNull<Node>) -> Self {
        Self {
            node,
            list: PhantomData,
        }
    }

    #[inline(always)]
    fn header(self) -> &'a Header {
        // SAFETY: a node that is linked was written before, which the Acquire made
        // us see; its header never changes, and stays where it is for `'a`.
        let header = unsafe { &(*self.node.as_ptr()).header };
        header.get()
    }

    /// Returns the user key.
    #[inline(always)]
    pub(crate) fn key(self) -> &'a [u8] {
        let header = self.header();
        // SAFETY: a node has a key of this length at this offset within its piece,
        // written before it was linked and not changed since.
        unsafe {
            let key = self.node.cast::<u8>().add(header.key_offset());
            std::slice::from_raw_parts(key.as_ptr(), header.key_bytes as usize)
        }
    }

    pub(crate) fn seq(self) -> SeqNo {
        self.header().seq
    }

    pub(crate) fn kind(self) -> Kind {
        self.header().kind
    }

    /// Returns the value as it is stored: see [`Version::value`](crate::key::Version::value).
    pub(crate) fn value(self) -> &'a [u8] {
        let header = self.header();
        if let Some(shared) = self.shared_value() {
            return shared;
        }
        // SAFETY: as in `key`; a value that is not shared is its bytes.
        unsafe {
            let value = self.node.cast::<u8>().add(header.value_offset());
            std::slice::from_raw_parts(value.as_ptr(), header.value_bytes as usize)
        }
    }

    /// Returns the value as bytes that do not keep the list in memory: a copy, or shared memory
    /// outside of the list.
    pub(crate) fn to_value(self) -> Bytes {
        let shared = self.shared_value().cloned();
        shared.unwrap_or_else(|| Bytes::copy_from_slice(self.value()))
    }

    fn shared_value(self) -> Option<&'a Bytes> {
        let header = self.header();
        // SAFETY: as in `key`; a shared value is a `Bytes` at this offset, aligned,
        // and dropped with the list only.
        header.shared.then(|| unsafe {
            let value = self.node.cast::<u8>().add(header.value_offset());
            value.cast::<Bytes>().as_ref()
        })
    }

    /// Returns the fold that a reader stored at this operand, if there is one: a version of the
    /// same sequence number, without a key, which stands for the operand and all older versions of
    /// its key.
    #[inline]
    pub(crate) fn fold(self) -> Option<Self> {
        let header = self.header();
        // The link behind those of the levels.
        let level = (header.kind == Kind::Merge).then_some(header.height)?;
        self.tower().next(level.into())
    }

    /// Returns the version that follows in the list; `None` after the last one.
    pub(crate) fn next(self) -> Option<Self> {
        self.tower().next(0)
    }

    fn tower(self) -> Tower<'a> {
        Tower {
            links: self.links(),
            list: PhantomData,
        }
    }

    fn links(self) -> NonNull<Link> {
        // SAFETY: a node's links stand right behind it, in the same piece.
        unsafe { self.node.add(1).cast() }
    }
}

/// The links of a node, or of the head.
#[derive(Clone, Copy)]
struct Tower<'a> {
    links: NonNull<Link>,
    list: PhantomData<&'a SkipList>,
}

impl<'a> Tower<'a> {
    /// Returns the link to the next node on a level. The tower must have this level: the head has
    /// all levels, and a search reaches a node only on levels that the node has. For a merge
    /// operand, `level` may also be its height: this link leads to its fold (stored merge result).
    #[inline(always)]
    fn link(self, level: usize) -> &'a Link {
        // SAFETY: the links of a node are written before it is linked, those of the
        // head with the list; both stay where they are for `'a`.
        unsafe { self.links.add(level).as_ref() }
    }

    #[inline(always)]
    fn next(self, level: usize) -> Option<Entry<'a>> {
        // Acquire: the thread that linked the node wrote the node before.
        let next = NonNull::new(self.link(level).load(Ordering::Acquire))?;
        // SAFETY: found by a link of a list that lives for `'a`.
        Some(unsafe { Entry::new(next) })
    }
}

/// Begins to load the node behind a link into the processor's cache, and does not wait for it. Does
/// nothing on processors other than x86-64.
#[inline(always)]
fn prefetch(link: &Link) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let node = link.load(Ordering::Relaxed);
        // SAFETY: a hint, which reads nothing and takes any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(node.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    let _ = link;
}

/// A node that no link leads to yet.
struct Unlinked<'a> {
    entry: Entry<'a>,
    height: usize,
}

/// The sorted versions of a memtable.
#[derive(Debug, Default)]
pub(crate) struct SkipList {
    head: [Link; HEIGHT_MAX],
    arena: Arena,
    /// All [`Bytes`] values in nodes, so that the drop of the list drops them, too: the arena frees
    /// the memory of nodes without dropping what is in them. The lock is that of std for the reason
    /// given at [`ChunkPool`].
    shared_values: Mutex<Vec<SharedValue>>,
    shared_bytes: AtomicUsize,
}

#[derive(Debug)]
struct SharedValue(NonNull<Bytes>);

// SAFETY: the place belongs to the list, and is used when that is dropped only.
unsafe impl Send for SharedValue {}

impl SkipList {
    /// Returns an empty list that takes its memory from `pool` where it can.
    pub(crate) fn new(pool: Arc<ChunkPool>) -> Self {
        Self {
            head: Default::default(),
            arena: Arena::new(pool),
            shared_values: Mutex::default(),
            shared_bytes: AtomicUsize::default(),
        }
    }

    pub(crate) fn pool(&self) -> &Arc<ChunkPool> {
        self.arena.pool()
    }

    /// Returns the memory that the versions take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.arena.bytes() + self.shared_bytes.load(Ordering::Relaxed)
    }

    /// Adds a version, whose (key, sequence number) must not be in the list yet. A value of more
    /// than [`COPIED_BYTES_MAX`] is stored as the [`Bytes`] that `share` returns for it.
    ///
    /// # Panics
    /// If the key or the value has 4 GiB or more; those of a WAL record have less.
    pub(crate) fn insert(
        &self,
        key: &[u8],
        seq: SeqNo,
        kind: Kind,
        value: &[u8],
        share: impl FnOnce(&[u8]) -> Bytes,
    ) {
        let shared = (value.len() > COPIED_BYTES_MAX).then(|| share(value));
        let header = Header::new(key, seq, kind, value, shared.is_some());
        let piece = self.arena.allocate(header.node_bytes());
        let node = self.write(piece, header, key, value, shared);
        self.link(node, Ordering::Release);
    }

    /// Stores a fold, the merged value of `operand` and all older versions of its key, beside the
    /// operand, so that later readers need not merge them again. All those older versions must be
    /// in the list by now: readers that use the fold miss an older version that is inserted later.
    /// Returns false, and stores nothing, if the arena's newest chunk has no room: a reader never
    /// takes the arena's lock to add a chunk.
    ///
    /// # Panics
    /// If `operand` is not a merge operand.
    pub(crate) fn leave_fold(&self, operand: Entry<'_>, kind: Kind, value: &[u8]) -> bool {
        self.publish_fold(operand, kind, value, Ordering::Release)
    }

    fn publish_fold(
        &self,
        operand: Entry<'_>,
        kind: Kind,
        value: &[u8],
        publish: Ordering,
    ) -> bool {
        let Header { height, seq, .. } = *operand.header();
        assert_eq!(operand.kind(), Kind::Merge, "only operands have folds");
        let header = Header {
            height: 0,
            ..Header::new(&[], seq, kind, value, false)
        };
        let Some(piece) = self.arena.try_allocate(header.node_bytes()) else {
            return false;
        };
        let fold = self.write(piece, header, &[], value, None);
        // A fold that another reader left meanwhile is equal.
        let link = operand.tower().link(height.into());
        link.store(fold.entry.node.as_ptr(), publish);
        true
    }

    /// Writes a node that is not linked yet into `piece`, an unused piece of the arena with a size
    /// of [`Header::node_bytes`].
    fn write(
        &self,
        piece: NonNull<u8>,
        header: Header,
        key: &[u8],
        value: &[u8],
        shared: Option<Bytes>,
    ) -> Unlinked<'_> {
        let (links_count, height) = (header.links(), header.height.into());
        let (key_offset, value_offset) = (header.key_offset(), header.value_offset());
        let header = Complete::new(header);
        // SAFETY: the piece is ours alone and has `node_bytes`, within which all of
        // this lies; it is aligned for a node, its links behind it and a `Bytes` at
        // the offset of a shared value.
        unsafe {
            let node = piece.cast::<Node>();
            (&raw mut (*node.as_ptr()).header).write(header);
            let links = node.add(1).cast::<Link>();
            (0..links_count).for_each(|level| links.add(level).write(Link::default()));
            piece
                .add(key_offset)
                .copy_from(NonNull::from_ref(key).cast(), key.len());
            let place = piece.add(value_offset);
            match shared {
                None => place.copy_from(NonNull::from_ref(value).cast(), value.len()),
                Some(shared) => {
                    place.cast().write(shared);
                    self.note_shared(place.cast(), value.len());
                }
            }
            Unlinked {
                // The node is not linked, so only this thread accesses it.
                entry: Entry::new(node),
                height,
            }
        }
    }

    /// Links a node into the list, level by level from the lowest, so that a node found on one
    /// level is on all levels below. `publish` is Release: a thread that follows the link sees the
    /// node's content.
    fn link(&self, node: Unlinked<'_>, publish: Ordering) {
        let entry = node.entry;
        let target = Target::new(entry.key(), entry.seq());
        let mut places = [(self.head(), None); HEIGHT_MAX];
        self.descend(
            |other| target.is_after(other),
            |level, before, after| places[level] = (before, after),
        );
        for (level, &(mut before, mut after)) in places.iter().enumerate().take(node.height) {
            loop {
                let expected = pointer(after);
                // Relaxed: published with the node, by the exchange.
                entry.tower().link(level).store(expected, Ordering::Relaxed);
                let exchanged = before.link(level).compare_exchange(
                    expected,
                    entry.node.as_ptr(),
                    publish,
                    Ordering::Relaxed,
                );
                if exchanged.is_ok() {
                    break;
                }
                // Others came in between; nothing goes, so the place is further on.
                (before, after) = advance(before, level, |other| target.is_after(other));
            }
        }
    }

    /// Returns the first version that is not before (key, seq): the newest version of `key` that is
    /// not newer than `seq`, or else the first version of the next key. `None` if there is none.
    pub(crate) fn seek(&self, key: &[u8], seq: SeqNo) -> Option<Entry<'_>> {
        let target = Target::new(key, seq);
        let (_, found) = self.descend(|entry| target.is_after(entry), |_, _, _| {});
        found
    }

    /// Returns the same as [`Self::seek`], but starts from `found`, the result of an earlier seek for
    /// the same or a smaller target. This is faster if the result is `found` again, or a few versions
    /// further on.
    pub(crate) fn seek_on<'a>(
        &'a self,
        found: Entry<'a>,
        key: &[u8],
        seq: SeqNo,
    ) -> Option<Entry<'a>> {
        let target = Target::new(key, seq);
        let mut next = Some(found);
        for _ in 0..STEPS_MAX {
            match next {
                Some(entry) if target.is_after(entry) => next = entry.next(),
                found => return found,
            }
        }
        self.seek(key, seq)
    }

    /// Returns the last version before (key, seq); `None` if there is none.
    pub(crate) fn seek_before(&self, key: &[u8], seq: SeqNo) -> Option<Entry<'_>> {
        let target = Target::new(key, seq);
        self.last_of(|entry| target.is_after(entry))
    }

    pub(crate) fn first(&self) -> Option<Entry<'_>> {
        self.head().next(0)
    }

    pub(crate) fn last(&self) -> Option<Entry<'_>> {
        self.last_of(|_| true)
    }

    /// Returns all versions in order. A version that is inserted meanwhile is included if the
    /// iterator has not passed its position.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        std::iter::successors(self.first(), |entry| entry.next())
    }

    fn head(&self) -> Tower<'_> {
        Tower {
            links: NonNull::from_ref(&self.head).cast(),
            list: PhantomData,
        }
    }

    fn last_of(&self, is_before: impl Fn(Entry<'_>) -> bool) -> Option<Entry<'_>> {
        self.descend(is_before, |_, _, _| {}).0
    }

    /// Searches from the top level down. `is_before` must be true for all versions up to a position,
    /// and false behind it. Returns the last version before this position, and the first one behind
    /// it. Calls `visit` for each level, with the last node (or the head) before the position on
    /// this level, and the node behind it.
    #[inline(always)]
    fn descend<'a>(
        &'a self,
        is_before: impl Fn(Entry<'a>) -> bool,
        mut visit: impl FnMut(usize, Tower<'a>, Option<Entry<'a>>),
    ) -> (Option<Entry<'a>>, Option<Entry<'a>>) {
        let (mut tower, mut before, mut after) = (self.head(), None, None::<Entry<'a>>);
        for level in (0..HEIGHT_MAX).rev() {
            // Half of the time the search goes down from here, to a node that takes as long
            // to load as the current one: both loads overlap.
            let below = level.saturating_sub(1);
            prefetch(tower.link(below));
            after = loop {
                let next = tower.next(level);
                match next {
                    // What was not before on the level above is not here either.
                    Some(entry) if pointer(next) != pointer(after) && is_before(entry) => {
                        tower = entry.tower();
                        before = next;
                        prefetch(tower.link(below));
                    }
                    _ => break next,
                }
            };
            visit(level, tower, after);
        }
        (before, after)
    }

    fn note_shared(&self, place: NonNull<Bytes>, bytes: usize) {
        self.shared_values.lock().unwrap().push(SharedValue(place));
        self.shared_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Moves from `tower`, on one level, to the last node for which `is_before` is true. Returns the tower of
/// this node (`tower` itself if there is none) and the node behind it.
fn advance<'a>(
    mut tower: Tower<'a>,
    level: usize,
    is_before: impl Fn(Entry<'a>) -> bool,
) -> (Tower<'a>, Option<Entry<'a>>) {
    loop {
        match tower.next(level) {
            Some(entry) if is_before(entry) => tower = entry.tower(),
            next => return (tower, next),
        }
    }
}

#[inline(always)]
fn pointer(entry: Option<Entry<'_>>) -> *mut Node {
    entry.map_or(std::ptr::null_mut(), |entry| entry.node.as_ptr())
}

impl Drop for SkipList {
    fn drop(&mut self) {
        let shared = self.shared_values.get_mut();
        let shared = shared.unwrap_or_else(|poisoned| poisoned.into_inner());
        for SharedValue(place) in shared.drain(..) {
            // SAFETY: written once, into the arena, which is dropped after this; no borrow of
            // the list is left.
            unsafe { place.drop_in_place() }
        }
    }
}

/// A position in a skip list. It keeps the list alive.
#[derive(Debug)]
pub(crate) struct Position {
    list: Arc<SkipList>,
    node: Option<NonNull<Node>>,
}

// SAFETY: the node belongs to the list, which threads share.
unsafe impl Send for Position {}

impl Position {
    /// Creates a position that is not on any version.
    pub(crate) fn new(list: Arc<SkipList>) -> Self {
        Self { list, node: None }
    }

    /// Returns the version at this position; `None` if it is not on a version.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        // SAFETY: found in the list by `settle`, and the list lives for as long as
        // `self`.
        self.node.map(|node| unsafe { Entry::new(node) })
    }

    /// Moves to the version that `find` returns; if it returns `None`, the position is not on a
    /// version.
    pub(crate) fn settle(&mut self, find: impl FnOnce(&SkipList) -> Option<Entry<'_>>) {
        self.node = find(&self.list).map(|entry| entry.node);
    }

    /// Moves to the next version. After the last one, the position is not on a version.
    ///
    /// # Panics
    /// If the position is not on a version.
    pub(crate) fn next(&mut self) {
        let entry = self.entry().expect("stands on a version");
        self.node = entry.next().map(|entry| entry.node);
    }

    /// Moves to the previous version. Before the first one, the position is not on a version. This
    /// takes a search, because links lead one way only.
    ///
    /// # Panics
    /// As [`Position::next`].
    pub(crate) fn prev(&mut self) {
        let entry = self.entry().expect("stands on a version");
        let before = self.list.seek_before(entry.key(), entry.seq());
        self.node = before.map(|entry| entry.node);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
