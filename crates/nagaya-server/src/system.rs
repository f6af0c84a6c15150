//! A system: a design, and what is particular about it.

use std::{fmt, sync::Arc};

use nagaya_design::Design;

use crate::{Extension, extension::Plain};

/// A design and what is particular about it, under a name.
#[derive(Clone)]
pub struct System {
    /// Its name: what its tokens are for, and where it is served beside others.
    pub name: String,
    /// Its design.
    pub design: Design,
    pub(crate) extension: Arc<dyn Extension>,
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "System({})", self.name)
    }
}

impl System {
    /// A system that is its design and nothing else, under the design's name.
    pub fn plain(design: Design) -> Self {
        System::new(design.name.clone(), design, Plain)
    }

    /// The same under another name.
    pub fn named(name: impl Into<String>, design: Design) -> Self {
        System::new(name, design, Plain)
    }

    /// A system with something particular about it.
    pub fn new(name: impl Into<String>, design: Design, extension: impl Extension) -> Self {
        System { name: name.into(), design, extension: Arc::new(extension) }
    }
}
