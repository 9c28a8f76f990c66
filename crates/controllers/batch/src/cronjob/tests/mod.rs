//! Tables. `grammar.tsv` and `firing.tsv` contain the results of robfig/cron v3.0.1: the fields of each schedule, or the
//! error, and the first four times after a given time.

mod active;
mod missed;
mod plan;
mod properties;
mod schedule;
mod triggers;
mod world;
