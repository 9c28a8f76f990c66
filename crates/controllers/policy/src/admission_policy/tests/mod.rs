//! Tables for what is warned of, and of which kinds.

mod expressions;
