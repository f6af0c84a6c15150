//! Any file gives a list of diagnostics, never a panic; a valid design can be documented, explained and compared.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nagaya_design::{Engine, KeyPart, check, diff, html, markdown};

fuzz_target!(|source: &str| {
    let checked = check(source, &Engine::ALL);
    for label in checked.diagnostics.iter().flat_map(|diagnostic| &diagnostic.labels) {
        assert!(source.get(label.span.clone()).is_some(), "{label:?} is not a piece of the file");
    }
    if let Some(design) = checked.design {
        markdown(&design);
        html(&design);
        assert!(diff(&design, &design).is_empty());
        let part = |value: &str| KeyPart { attribute: None, value: value.to_owned() };
        design.explain(&[part("TENANT#t1"), part(source)]);
    }
});
