mod active;
mod missed;
mod plan;
mod properties;
mod triggers;
mod world;
