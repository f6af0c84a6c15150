//! A system: a design and its extension, under a name.

use std::{fmt, sync::Arc};

use nagaya_design::Design;

use crate::{
    Extension, OwnRoute,
    extension::NoExtension,
    route::{CustomRouteId, Operation, Route, positional, routes},
};

/// A design and its extension, under a name.
#[derive(Clone)]
pub struct System {
    /// Its name: the audience of its tokens, and its path beside other systems.
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
    /// A system without an extension, under the design's name.
    pub fn plain(design: Design) -> Self {
        System::new(design.name.clone(), design, NoExtension)
    }

    /// A system without an extension, under another name.
    pub fn named(name: impl Into<String>, design: Design) -> Self {
        System::new(name, design, NoExtension)
    }

    /// A system with an extension.
    pub fn new(name: impl Into<String>, design: Design, extension: impl Extension) -> Self {
        System { name: name.into(), design, extension: Arc::new(extension) }
    }
    /// All routes: those of the extension, and those of the design that they do not replace.
    pub(crate) fn routes(&self) -> (Vec<Arc<Route>>, Vec<OwnRoute>) {
        let custom = self.extension.routes();
        let route = |(at, route): (usize, &OwnRoute)| Route {
            method: route.method.clone(),
            path: format!("{}{}", self.design.http_prefix, route.path),
            operation: Operation::Custom(CustomRouteId(at)),
            reach: route.reach,
        };
        let mut all: Vec<Route> = custom.iter().enumerate().map(route).collect();
        let is_same = |a: &Route, b: &Route| a.method == b.method && positional(&a.path) == positional(&b.path);
        let derived = routes(&self.design).into_iter();
        let derived: Vec<_> = derived.filter(|derived| !all.iter().any(|custom| is_same(custom, derived))).collect();
        all.extend(derived);
        (all.into_iter().map(Arc::new).collect(), custom)
    }
}
