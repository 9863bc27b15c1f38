//! The separate file that holds the symbols and the debug information of a stripped one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::image::Image;

/// The debug file that belongs to an image, if it is installed: by its build id, else by the name the
/// image gives, with the checksum it gives. `root` is that of the processes that run it.
pub(crate) fn debug_file(image: &Image, shown: &Path, root: &Path) -> Option<Image> {
    let mut roots = vec![root];
    if root != Path::new("/") {
        roots.push(Path::new("/"));
    }
    roots.into_iter().find_map(|root| {
        let debug = root.join("usr/lib/debug");
        by_build_id(image, &debug).or_else(|| by_link(image, shown, root, &debug))
    })
}

fn by_build_id(image: &Image, debug: &Path) -> Option<Image> {
    let (first, rest) = image.build_id.split_first()?;
    if rest.is_empty() || rest.len() > 64 {
        return None;
    }
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = debug.join(".build-id").join(format!("{first:02x}")).join(rest + ".debug");
    Image::open(&path).ok().filter(|found| found.build_id == image.build_id)
}

fn by_link(image: &Image, shown: &Path, root: &Path, debug: &Path) -> Option<Image> {
    let (name, checksum) = image.debug_link.as_ref()?;
    // A name, not a path: a file must not lead us elsewhere.
    if name.contains(&b'/') || name.len() > 255 {
        return None;
    }
    let name = OsStr::from_bytes(name);
    let folder = std::path::absolute(shown).ok()?.parent()?.to_owned();
    let below = |root: &Path| root.join(folder.strip_prefix("/").unwrap_or(&folder));
    let candidates: [PathBuf; 3] =
        [below(root).join(name), below(root).join(".debug").join(name), below(debug).join(name)];
    candidates.into_iter().filter(|path| path.is_file() && !same_file(path, &image.path)).find_map(|path| {
        let same_build = |found: &Image| !image.build_id.is_empty() && found.build_id == image.build_id;
        let found = Image::open(&path).ok()?;
        (same_build(&found) || checksum_of(&path) == Some(*checksum)).then_some(found)
    })
}

fn same_file(a: &Path, b: &Path) -> bool {
    a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a))
}

/// The CRC-32 of zlib, as the link states it.
fn checksum_of(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    let mut checksum = flate2::Crc::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match file.read(&mut block).ok()? {
            0 => return Some(checksum.sum()),
            read => checksum.update(&block[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::debug_file;
    use crate::image::Image;

    fn run(command: &mut Command) {
        assert!(command.status().unwrap().success(), "{command:?}");
    }

    #[test]
    fn a_debug_file_is_found_by_the_build_below_the_root_of_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let (app, source) = (folder.path().join("app"), folder.path().join("app.c"));
        std::fs::write(&source, "int main(void) { return 0; }").unwrap();
        run(Command::new("cc").arg("-Wl,--build-id=0x0123456789").arg(&source).arg("-o").arg(&app));
        let root = folder.path().join("other");
        let debug = root.join("usr/lib/debug/.build-id/01/23456789.debug");
        std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
        run(Command::new("objcopy").arg("--only-keep-debug").arg(&app).arg(&debug));
        run(Command::new("strip").arg(&app));
        let image = Image::open(&app).unwrap();
        assert!(!image.symbols.full);
        let found = debug_file(&image, &app, &root).expect("it is where its build id says");
        assert!(found.path == debug && found.symbols.full);
        assert!(debug_file(&image, &app, Path::new("/")).is_none(), "below another root there is none");
        // In its place the debug file of another build.
        run(Command::new("cc").arg("-Wl,--build-id=0x0123456780").arg(&source).arg("-o").arg(&debug));
        assert!(debug_file(&image, &app, &root).is_none());
    }
}
