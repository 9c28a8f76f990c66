//! The standings of the owners of an object. A live read decides: an object is deleted only if the server confirms that
//! its owners are gone.

use flyball_api::OwnerReference;
use smol_str::SmolStr;

use super::identity::Identity;
use super::plan::Standing;
use super::server::{Problem, Server, is_object_missing};
use super::sync::Collector;

impl<S: Server> Collector<S> {
    /// The standing of each owner. Those that are not known to be absent are read; but once one keeps the object, those
    /// that a cache shows count as solid: if one of them is gone, its deletion event causes another examination.
    pub(super) async fn standings(
        &self,
        object: &Identity,
        references: &[OwnerReference],
    ) -> Result<Vec<Standing>, Problem> {
        let living: Vec<bool> = self.read_graph(|graph| {
            references.iter().map(|reference| graph.is_living(reference, &object.namespace)).collect()
        });
        let mut standings = vec![Standing::Solid; references.len()];
        let mut is_kept = false;
        let mut doubtful_first: Vec<usize> = (0..references.len()).collect();
        doubtful_first.sort_by_key(|n| living[*n]);
        for n in doubtful_first {
            if is_kept && living[n] {
                continue;
            }
            standings[n] = match self.standing(object, &references[n]).await? {
                Standing::Absent if self.absent().is_outlived(&references[n].uid) => Standing::Outlived,
                standing => standing,
            };
            is_kept |= standings[n] == Standing::Solid;
        }
        Ok(standings)
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
        if resource.namespaced && object.namespace.is_empty() {
            return Err(Problem::NamespacedOwner);
        }
        let namespace = if resource.namespaced { object.namespace.clone() } else { SmolStr::default() };
        let owner = Identity::claimed(reference, &namespace);
        // Only the answer that an owner is gone is of use to others, so only such reads are serialized.
        let _read = match self.read_graph(|graph| graph.is_living(reference, &object.namespace)) {
            true => None,
            false => Some(self.owner_reads.begin(&owner).await),
        };
        if self.absent().has(reference, &object.namespace) {
            return Ok(Standing::Absent);
        }
        match self.server.read(&resource, &owner).await {
            Ok(meta) if meta.uid == owner.uid => Ok(Standing::of(&meta)),
            Err(error) if !is_object_missing(&error, &owner.name) => match error.is_not_found() {
                true if has_vanished() => Ok(Standing::Absent),
                _ => Err(Problem::Api(format!("reading its owner {} {}", owner.kind, owner.key()), error)),
            },
            // It does not exist, or another object has its name.
            Ok(_) | Err(_) => {
                self.absent().add(owner);
                Ok(Standing::Absent)
            }
        }
    }
}
