//! Applies plans to the kernel of this machine while this process leads. All functions block.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use flyball_client::Fence;
use parking_lot::Mutex;
use smol_str::SmolStr;

use crate::balancer::Held;
use crate::kernel::Kernel;
use crate::plan::{Lifetime, Operation, Wanted, is_stale, plan};

pub(crate) struct Machine {
    pub(crate) kernel: Arc<dyn Kernel>,
    /// The fence that shows whether this process may still act as leader; set when it begins to lead.
    pub(crate) fence: OnceLock<Fence>,
    /// The addresses that this machine holds and that have rules in the kernel. Locked while an address is added or removed, so
    /// that a concurrent renewal cannot bring back a removed one.
    held: Mutex<BTreeSet<Held>>,
}

#[derive(Debug, Default)]
pub(crate) struct Changed {
    pub(crate) new: Vec<Held>,
    /// Addresses that this machine has for something else.
    pub(crate) conflicts: BTreeMap<IpAddr, SmolStr>,
    /// Addresses that cannot be held, and why.
    pub(crate) failures: BTreeMap<IpAddr, String>,
}

impl Machine {
    pub(crate) fn new(kernel: Arc<dyn Kernel>) -> Self {
        Self { kernel, fence: OnceLock::new(), held: Mutex::default() }
    }

    /// Applies the desired state. If the rules cannot be replaced, existing addresses stay with their previous rules, and new
    /// addresses are not added yet.
    pub(crate) fn change(&self, wanted: &Wanted<'_>, announce: &[Held]) -> io::Result<Changed> {
        let plan = plan(wanted, &self.kernel.observe()?);
        self.held.lock().retain(|held| plan.held.contains(held));
        let (mut new, mut failures) = (vec![], BTreeMap::new());
        for operation in &plan.operations {
            // Renewals are the rule.
            if !matches!(operation, Operation::Hold(..)) {
                tracing::info!(%operation, "changing this machine");
            }
            let done = self.perform(operation);
            match operation {
                Operation::Announce(held) => new.push(held.clone()),
                // An address without its interface does not keep the others from being held.
                Operation::Hold(held, _) => {
                    failures.extend(done.err().map(|error| (held.address, error.to_string())));
                    continue;
                }
                _ => {}
            }
            announced(operation, done)?;
        }
        let has_new_rules =
            |operation: &Operation| matches!(operation, Operation::Replace(_) | Operation::DeleteTable);
        if plan.operations.iter().any(has_new_rules) {
            let is_stale = |flow: &_| is_stale(flow, &wanted.balancers, &plan.translated);
            let forgotten = self.kernel.forget_flows(&is_stale)?;
            tracing::debug!(forgotten, "deleted stale conntrack entries");
        }
        for held in announce.iter().filter(|held| !new.contains(held)) {
            let operation = Operation::Announce(held.clone());
            announced(&operation, self.perform(&operation))?;
        }
        Ok(Changed { new, conflicts: plan.conflicts, failures })
    }

    /// Renews the lifetimes of all addresses that are held. Nothing that takes long, such as many rules, delays this.
    pub(crate) fn renew(&self, lifetime: Lifetime) {
        let held = self.held.lock();
        for held in &*held {
            if let Err(error) = self.unlocked(&Operation::Hold(held.clone(), lifetime)) {
                tracing::warn!(address = %held, %error, "the lifetime of an address is not renewed");
            }
        }
    }

    /// Deletes the rules that an earlier process has left, unless their addresses are still there: then another process on this
    /// machine may serve them, or they expire. Whether there is nothing left.
    pub(crate) fn delete_leftover_rules(&self) -> io::Result<bool> {
        let seen = self.kernel.observe()?;
        if seen.rules.is_empty() {
            return Ok(true);
        }
        if seen.addresses.iter().any(|address| address.is_ours) {
            return Ok(false);
        }
        tracing::info!("deleting the rules of an earlier process");
        self.kernel.apply(&Operation::DeleteTable)?;
        Ok(true)
    }

    fn perform(&self, operation: &Operation) -> io::Result<()> {
        match operation {
            Operation::Hold(held, _) => {
                let mut all = self.held.lock();
                self.unlocked(operation)?;
                all.insert(held.clone());
                Ok(())
            }
            Operation::Release(held) => {
                let mut all = self.held.lock();
                all.remove(held);
                self.unlocked(operation)
            }
            _ => self.unlocked(operation),
        }
    }

    /// A process that was stopped for longer than its lease may withdraw what it had, and nothing else.
    fn unlocked(&self, operation: &Operation) -> io::Result<()> {
        let withdraws = matches!(operation, Operation::Release(_) | Operation::DeleteTable);
        if let Some(fence) = self.fence.get().filter(|_| !withdraws) {
            fence.check().map_err(io::Error::other)?;
        }
        let shortened = self.shortened(operation);
        self.kernel
            .apply(shortened.as_ref().unwrap_or(operation))
            .map_err(|error| io::Error::new(error.kind(), format!("cannot {operation}: {error}")))
    }

    /// If the lease is not renewed: the addition of an address that ends when another process may lead. From the end of the fence
    /// until then it is half the usual lifetime.
    fn shortened(&self, operation: &Operation) -> Option<Operation> {
        let Operation::Hold(held, Lifetime::For(usual)) = operation else { return None };
        let until_another_leads = self.fence.get()?.left()? + *usual / 2;
        let is_shorter = until_another_leads < *usual;
        is_shorter.then(|| Operation::Hold(held.clone(), Lifetime::For(until_another_leads)))
    }
}

/// An announcement that fails is repeated with the next ones.
fn announced(operation: &Operation, done: io::Result<()>) -> io::Result<()> {
    match (operation, done) {
        (Operation::Announce(_), Err(error)) => {
            tracing::warn!(%error, "an address is not announced");
            Ok(())
        }
        (_, done) => done,
    }
}
