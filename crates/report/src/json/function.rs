//! A place in the code, in documents.

use serde::Serialize;
use wakepath_engine::Found;

use super::text;

/// `found` is `named`, or the reason why there is no name.
#[derive(Serialize)]
pub(super) struct FunctionJson {
    /// The thread stood there, or unwinding tables led there.
    proved: bool,
    found: &'static str,
    function: Option<String>,
    module: Option<String>,
    file: Option<String>,
    line: Option<u32>,
}

/// The function at an address.
pub(super) fn function(found: &Found, proved: bool) -> FunctionJson {
    let (found, module) = match found {
        Found::Function(function) => {
            let (file, line) = function.line.clone().unzip();
            let module = function.module.as_ref().map(|module| text(module));
            return FunctionJson {
                proved,
                found: "named",
                function: Some(function.name.clone()),
                module,
                file,
                line,
            };
        }
        Found::Unnamed(module) => ("unnamed", Some(module).filter(|module| !module.is_empty())),
        Found::Replaced(module) => ("replaced", Some(module)),
        Found::Unreadable(module) => ("unreadable", Some(module)),
        Found::Another(module) => ("another", Some(module)),
        Found::Unproved(module) => ("unproved", Some(module)),
        Found::Unmapped => ("unmapped", None),
        Found::Kernel => ("kernel", None),
        Found::AnotherKernel => ("another_kernel", None),
    };
    let module = module.map(|module| text(module));
    FunctionJson { proved, found, function: None, module, file: None, line: None }
}
