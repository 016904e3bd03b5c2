//! What must be kept: the register of bookmarks and views, and the boundaries that
//! they draw.

pub(crate) mod boundaries;
pub(crate) mod register;
