//! A stripped file's separate file with its symbols and debug information.

use std::path::Path;

use wakepath_symbols::installed_debug_file;

use crate::image::Image;

/// An image's debug file, if it is installed: by its build id, else by the name in the image, with the checksum in the
/// image. `root` is the root folder of the processes that run it.
pub(crate) fn debug_file(image: &Image, shown: &Path, root: &Path) -> Option<Image> {
    let mut roots = vec![root];
    if root != Path::new("/") {
        roots.push(Path::new("/"));
    }
    let link = image.debug_link.as_ref().map(|(name, checksum)| (name.as_slice(), *checksum));
    let open = |path: &Path| {
        // A folder or a pipe is no debug file.
        let found = path.is_file().then(|| Image::open(path).ok())??;
        let has_build_id = !image.build_id.is_empty() && found.build_id == image.build_id;
        Some((found, has_build_id))
    };
    roots
        .into_iter()
        .find_map(|root| installed_debug_file(&image.build_id, link, &image.path, (shown, root), open))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::debug_file;
    use crate::image::Image;
    use crate::testing::{CODE, Elf};

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
        // Another build's debug file in its place.
        run(Command::new("cc").arg("-Wl,--build-id=0x0123456780").arg(&source).arg("-o").arg(&debug));
        assert!(debug_file(&image, &app, &root).is_none());
    }

    /// Writes a file into a folder that may not exist yet.
    fn put(path: &Path, elf: &Elf) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, elf.bytes()).unwrap();
    }

    #[test]
    fn a_build_names_a_file_from_two_bytes_to_sixty_five() {
        let root = tempfile::tempdir().unwrap();
        for (length, found) in [(0, false), (1, false), (2, true), (20, true), (65, true), (66, false)] {
            let id = vec![0xab; length];
            let name = "ab".repeat(length.saturating_sub(1)) + ".debug";
            let debug = root.path().join("usr/lib/debug/.build-id/ab").join(name);
            put(&debug, &Elf::default().build(&id));
            let app = Elf::default().build(&id).write();
            let file = debug_file(&app.image(), &app.path, root.path()).map(|found| found.path);
            assert_eq!(file, found.then_some(debug), "{length}");
        }
    }

    /// A debug file, and its checksum.
    fn debug(id: &[u8]) -> (Elf, u32) {
        let elf = Elf::default().function("work", CODE, 1).build(id);
        let mut checksum = flate2::Crc::new();
        checksum.update(&elf.bytes());
        (elf, checksum.sum())
    }

    #[test]
    fn a_linked_file_is_believed_for_its_checksum_or_its_build() {
        for (what, id, other_id, right, found) in [
            ("the checksum alone", &b""[..], &b""[..], true, true),
            ("the checksum, of another build", b"this", b"that", true, true),
            ("the build alone", b"this", b"this", false, true),
            ("neither", b"this", b"that", false, false),
            ("neither, and no builds", b"", b"", false, false),
            ("neither, and one build", b"", b"that", false, false),
        ] {
            let (elf, checksum) = debug(other_id);
            let app = Elf::default().build(id).debug_link("app.debug", checksum ^ u32::from(!right)).write();
            let beside = app.path.with_file_name("app.debug");
            put(&beside, &elf);
            let file = debug_file(&app.image(), &app.path, Path::new("/")).map(|found| found.path);
            assert_eq!(file, found.then_some(beside), "{what}");
        }
    }

    #[test]
    fn a_linked_file_is_beside_the_program_or_below_or_with_all_debug_files() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("opt/shop");
        let (elf, checksum) = debug(b"");
        let app = folder.join("app");
        put(&app, &Elf::default().debug_link("app.debug", checksum));
        let image = Image::open(&app).unwrap();
        let found = || debug_file(&image, Path::new("/opt/shop/app"), root.path()).map(|found| found.path);
        assert_eq!(found(), None);
        // The last file written is the first in the search.
        for place in ["usr/lib/debug/opt/shop/app.debug", "opt/shop/.debug/app.debug", "opt/shop/app.debug"] {
            let place = root.path().join(place);
            put(&place, &elf);
            assert_eq!(found(), Some(place));
        }
        // The machine's debug files serve a container without any.
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(debug_file(&image, &app, empty.path()).unwrap().path, folder.join("app.debug"));
        // A folder is passed over.
        fs::remove_file(folder.join("app.debug")).unwrap();
        fs::create_dir(folder.join("app.debug")).unwrap();
        assert_eq!(found(), Some(folder.join(".debug/app.debug")));
    }

    #[test]
    fn a_link_is_a_name_of_another_file_and_no_path() {
        let longest = "n".repeat(255);
        for (name, at, found) in [
            ("app.debug", "app.debug", true),
            (longest.as_str(), longest.as_str(), true),
            ("below/app.debug", "below/app.debug", false),
            ("./app.debug", "app.debug", false),
        ] {
            let (elf, checksum) = debug(b"");
            let app = Elf::default().debug_link(name, checksum).write();
            let at = app.path.with_file_name(at);
            put(&at, &elf);
            let file: Option<PathBuf> =
                debug_file(&app.image(), &app.path, Path::new("/")).map(|found| found.path);
            assert_eq!(file, found.then_some(at), "{name}");
        }
        let itself = Elf::default().build(b"this").debug_link("app", 0).write();
        assert!(debug_file(&itself.image(), &itself.path, Path::new("/")).is_none());
        let app = Elf::default().build(b"this").debug_link("app.debug", 0).write();
        std::os::unix::fs::symlink("app", app.path.with_file_name("app.debug")).unwrap();
        assert!(debug_file(&app.image(), &app.path, Path::new("/")).is_none(), "another name of it");
    }

    #[test]
    fn a_debug_file_adds_its_names_to_those_of_the_file() {
        let (elf, checksum) = debug(b"");
        let app = Elf::default().code(CODE, &[0x55, 0x5d, 0xc3]).debug_link("app.debug", checksum);
        let linked = |app: Elf| {
            let app = app.write();
            put(&app.path.with_file_name("app.debug"), &elf);
            app
        };
        let exporting = linked(app.clone().function("exported", CODE + 1, 1).exported());
        let whole = linked(app.clone().function("named", CODE + 2, 1));
        let bare = linked(app);
        for (made, own) in [(&exporting, "exported"), (&whole, "named"), (&bare, "work")] {
            assert_eq!(made.only(own).names, [own]);
            assert_eq!(made.only("work").address, CODE);
            let absent = made.refusal("absent");
            assert!(!absent.contains("stripped") && !absent.contains("damaged"), "{absent}");
        }
    }
}
