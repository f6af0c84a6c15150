//! The product on a store in memory, and what all tests of it need.

use std::{path::Path, sync::Arc};

use nagaya_design::{Design, check};
use nagaya_kondate::LocalPayments;
use nagaya_server::System;
use nagaya_testing::House;

pub(crate) const NAME: &str = "kondate";

pub(crate) fn design() -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("design/kondate.toml");
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design is sound")
}

pub(crate) fn system() -> System {
    nagaya_kondate::system(NAME, design(), Arc::new(LocalPayments::default()))
}

pub(crate) fn kitchen() -> House {
    House::in_memory(system())
}

/// Does something as often as this at the same time.
pub(crate) fn at_once<T: Send>(times: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let act = &act;
        let acts: Vec<_> = (0..times).map(|n| scope.spawn(move || act(n))).collect();
        acts.into_iter().map(|act| act.join().expect("no panic")).collect()
    })
}
