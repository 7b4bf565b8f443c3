//! Which beliefs to look at.

pub mod hsvi;
