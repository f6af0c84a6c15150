//! The audit: its entity and the fields of its entries.

use super::Resolver;
use crate::{
    audit::{Audit, AuditArchive, AuditPart},
    design::Design,
    tree::Node,
};

impl Resolver<'_> {
    pub(super) fn audit(&mut self, node: &Node, design: &Design) -> Option<Audit> {
        let names = design.entities.iter().map(|entity| entity.name.as_str());
        let entity = self.resolve("entity", &node.text("entity")?, names, "entity")?;
        let archive = node.get("archive").and_then(|node| self.archive(node, design));
        let fields = AuditPart::ALL.into_iter().filter_map(|part| Some((part, node.text(part.name())?))).collect();
        Some(Audit::new(entity, archive, fields))
    }

    fn archive(&mut self, node: &Node, design: &Design) -> Option<AuditArchive> {
        let names = design.entities.iter().map(|entity| entity.name.as_str());
        let entity = self.resolve("entity", &node.text("entity")?, names, "entity")?;
        let after = self.duration(&node.text("after")?)?;
        Some(AuditArchive { entity, after, span: node.span.clone() })
    }
}
