//! Tables. `grammar.tsv` and `firing.tsv` hold what robfig/cron v3.0.1 makes of schedules: the fields it reads from
//! each, or its error, and the first four times after a moment.

mod active;
mod missed;
mod plan;
mod properties;
mod schedule;
mod triggers;
mod world;
