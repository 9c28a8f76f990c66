//! `flyball ui`: a link to the live page of a running cluster.

use anyhow::bail;

use super::Place;
use super::channel::{self, Reached, Request};
use crate::args;
use crate::lines::say;

pub(crate) async fn run(args: &args::Page) -> anyhow::Result<()> {
    let name = args.name.clone().unwrap_or_default();
    match channel::reach(&Place::of(&name)?.socket()).await? {
        Reached::Yes(mut connection) => {
            say!("{}", connection.request_soon::<String>(&Request::Page {}).await?);
            Ok(())
        }
        Reached::No => bail!("{}", super::unknown(&name)?),
    }
}
