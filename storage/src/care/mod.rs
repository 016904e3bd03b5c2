//! Care of a database: copies of it, what is wrong with it, what can be saved.

pub(crate) mod backup;
mod db_files;
mod new_dir;
pub(crate) mod repair;
pub(crate) mod verify;
