//! The user who called sudo, and acting with this user's rights.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The user who called sudo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// All its groups.
    pub groups: Vec<u32>,
}

impl Caller {
    /// The user who called sudo, if this runs under sudo.
    pub fn from_sudo() -> Option<Self> {
        let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
        let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
        let user = CString::new(std::env::var_os("SUDO_USER")?.into_vec()).ok()?;
        let mut groups = vec![0; 1024];
        let mut count = groups.len() as i32;
        // SAFETY: `groups` has room for `count` ids; the call lowers `count` to the number that it wrote.
        let found = unsafe { libc::getgrouplist(user.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        groups.truncate(if found < 0 { 0 } else { count.max(0) as usize });
        (uid != 0).then_some(Self { uid, gid, groups })
    }

    /// This user's home directory.
    pub fn home(&self) -> Option<PathBuf> {
        let mut room = vec![0; 16 << 10];
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: all are live.
        let result = unsafe {
            libc::getpwuid_r(self.uid, entry.as_mut_ptr(), room.as_mut_ptr(), room.len(), &raw mut found)
        };
        if result != 0 || found.is_null() {
            return None;
        }
        // SAFETY: the call has written `entry`, whose texts end with a NUL and lie in `room`.
        let home = unsafe { CStr::from_ptr(entry.assume_init().pw_dir) }.to_bytes().to_vec();
        Some(PathBuf::from(OsString::from_vec(home))).filter(|home| home.is_absolute())
    }

    /// Makes this process the user's, for good. Safe in a signal handler.
    pub fn assume(&self) -> bool {
        // SAFETY: plain numbers and a live array with its own length.
        unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setresgid(self.gid, self.gid, self.gid) == 0
                && libc::setresuid(self.uid, self.uid, self.uid) == 0
        }
    }

    /// Gives this thread the user's rights to files until the result is dropped; what it creates then belongs to the
    /// user. Nothing changes where nobody called sudo, or where this process no longer runs as root.
    ///
    /// # Errors
    /// When the kernel refuses; then this thread has the rights that it had.
    pub fn act(caller: Option<&Self>) -> io::Result<Acting> {
        // SAFETY: takes nothing, changes nothing.
        let is_root = unsafe { libc::geteuid() } == 0;
        let Some(caller) = caller.filter(|_| is_root) else {
            return Ok(Acting { before: None, _of_this_thread: PhantomData });
        };
        let before = Self { uid: acting_uid(), gid: acting_gid(), groups: groups()? };
        let acting = Acting { before: Some(before), _of_this_thread: PhantomData };
        // The user comes last: it takes away the right to change the others.
        caller.take()?;
        Ok(acting)
    }

    fn take(&self) -> io::Result<()> {
        // The C library's function would change all threads.
        // SAFETY: a live array with its own length.
        if unsafe { libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: plain numbers; these change this thread alone. Their results are the values before.
        unsafe {
            libc::setfsgid(self.gid);
            libc::setfsuid(self.uid);
        }
        if (acting_uid(), acting_gid()) == (self.uid, self.gid) {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

/// This thread has the caller's rights to files while this lives.
#[derive(Debug)]
#[must_use]
pub struct Acting {
    before: Option<Caller>,
    /// Rights belong to a thread: this must not move to another one.
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Acting {
    fn drop(&mut self) {
        // A failure leaves fewer rights, never more.
        let _ = self.before.as_ref().map(Caller::take);
    }
}

/// The user as whom this thread opens and creates files.
pub fn acting_uid() -> u32 {
    // SAFETY: no such user: changes nothing, returns the present one.
    unsafe { libc::setfsuid(u32::MAX) as u32 }
}

fn acting_gid() -> u32 {
    // SAFETY: as above.
    unsafe { libc::setfsgid(u32::MAX) as u32 }
}

fn groups() -> io::Result<Vec<u32>> {
    // SAFETY: a size of 0 writes nothing.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).map_err(|_| io::Error::last_os_error())?];
    // SAFETY: `groups` has room for `count` ids.
    let count = unsafe { libc::getgroups(count, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).map_err(|_| io::Error::last_os_error())?);
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_home_and_a_number_without_a_user_has_none() {
        let home = |uid| Caller { uid, gid: 0, groups: vec![] }.home();
        let entries = std::fs::read_to_string("/etc/passwd").expect("users");
        let root = entries.lines().find(|line| line.starts_with("root:")).expect("root");
        assert_eq!(home(0), root.split(':').nth(5).map(PathBuf::from));
        assert_eq!(home(3_999_999_999), None, "nobody has this number");
    }

    #[test]
    fn needs_root_rights_come_back_to_this_thread_and_never_left_another() {
        if acting_uid() != 0 {
            eprintln!("skipped: not root; it would have shown that rights are the caller's for a while");
            return;
        }
        let before = groups().expect("groups");
        let caller = Caller { uid: 54321, gid: 54322, groups: vec![54322, 54323] };
        let acting = Caller::act(Some(&caller)).expect("root may");
        assert_eq!((acting_uid(), acting_gid(), groups().expect("groups")), (54321, 54322, caller.groups));
        assert!(std::fs::read_dir("/proc/1/fd").is_err(), "a folder of root alone");
        drop(acting);
        assert_eq!((acting_uid(), acting_gid(), groups().expect("groups")), (0, 0, before.clone()));
        assert!(std::fs::read_dir("/proc/1/fd").is_ok());
        // A thread that keeps the rights keeps them alone.
        let thread = std::thread::spawn(move || {
            std::mem::forget(Caller::act(Some(&Caller { uid: 54321, gid: 54321, groups: vec![] })));
            (acting_uid(), groups().expect("groups"))
        });
        assert_eq!(thread.join().expect("a thread"), (54321, vec![]));
        assert_eq!((acting_uid(), acting_gid(), groups().expect("groups")), (0, 0, before));
    }
}
