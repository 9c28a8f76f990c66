//! The standings of the owners of an object. A live read decides: an object is deleted only if the server confirms that
//! its owners are gone.

use flyball_api::OwnerReference;

use super::examination::{OwnerAnswer, OwnerChecks, owner_to_read};
use super::identity::Identity;
use super::plan::Standing;
use super::server::{Problem, Server};
use super::sync::Collector;

impl<S: Server> Collector<S> {
    /// The standing of each owner, as far as it matters.
    pub(super) async fn standings(
        &self,
        object: &Identity,
        references: &[OwnerReference],
    ) -> Result<Vec<Standing>, Problem> {
        let living = self.read_graph(|graph| {
            references.iter().map(|reference| graph.is_living(reference, &object.namespace)).collect()
        });
        let mut checks = OwnerChecks::new(living);
        while let Some(owner) = checks.next_owner() {
            let standing = match self.standing(object, &references[owner]).await? {
                Standing::Absent if self.absent().is_outlived(&references[owner].uid) => Standing::Outlived,
                standing => standing,
            };
            checks.record(owner, standing);
        }
        Ok(checks.standings())
    }

    async fn standing(&self, object: &Identity, reference: &OwnerReference) -> Result<Standing, Problem> {
        if self.absent().has(reference, &object.namespace) {
            return Ok(Standing::Absent);
        }
        // If the server does not serve the kind any more, a cache may have seen the deletion of the owner.
        let has_vanished = || self.read_graph(|graph| graph.has_vanished(reference, &object.namespace));
        let resource = match self.resource(&reference.api_version, &reference.kind) {
            Err(Problem::UnknownKind(..)) if has_vanished() => return Ok(Standing::Absent),
            found => found?,
        };
        let owner = owner_to_read(object, reference, &resource).ok_or(Problem::NamespacedOwner)?;
        // Only the answer that an owner is gone is of use to others, so only such reads are serialized.
        let _read = match self.read_graph(|graph| graph.is_living(reference, &object.namespace)) {
            true => None,
            false => Some(self.owner_reads.begin(&owner).await),
        };
        if self.absent().has(reference, &object.namespace) {
            return Ok(Standing::Absent);
        }
        let answer = self.server.read(&resource, &owner).await;
        let unreadable =
            |error| Problem::Api(format!("reading its owner {} {}", owner.kind.kind, owner.key()), error);
        match OwnerAnswer::of(answer, &owner, has_vanished()).map_err(unreadable)? {
            OwnerAnswer::Standing(standing) => Ok(standing),
            OwnerAnswer::Gone => {
                self.absent().add(owner);
                Ok(Standing::Absent)
            }
        }
    }
}
