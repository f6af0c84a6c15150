//! The C functions that the standard library uses for files. The symbols of an executable override those of the C
//! library.
//!
//! Each function makes the raw system call, except for files of the simulated disk.

use std::{
    cell::Cell,
    ffi::{CStr, OsStr},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::{Mutex, OnceLock, PoisonError},
};

use libc::{c_char, c_int, c_void, iovec, mode_t, off64_t, size_t, ssize_t};

use crate::{
    disk::{Disk, Interception},
    faults::Operation,
};

static DISK: OnceLock<Mutex<Disk>> = OnceLock::new();

thread_local! {
    /// Whether this thread is inside the simulation, which uses real files.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Makes this process use a simulated disk.
pub(crate) fn mount(disk: Disk) {
    let _ = DISK.set(Mutex::new(disk));
}

/// Calls a function with the disk; `None` if there is none, or if the disk itself is calling.
pub(crate) fn with_disk<T>(act: impl FnOnce(&mut Disk) -> T) -> Option<T> {
    let disk = DISK.get()?;
    if INSIDE.replace(true) {
        return None;
    }
    let answer = act(&mut disk.lock().unwrap_or_else(PoisonError::into_inner));
    INSIDE.set(false);
    Some(answer)
}

/// Ends the process without any cleanup.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: it takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// The offset of the next write of a file.
pub(crate) fn position(fd: c_int, appends: bool) -> u64 {
    let whence = if appends { libc::SEEK_END } else { libc::SEEK_CUR };
    // SAFETY: it takes numbers. Moving to the end is what the append itself is about to do.
    let at = unsafe { libc::syscall(libc::SYS_lseek, fd, 0, whence) };
    at.try_into().unwrap_or(0)
}

/// The offset of the next byte that is not in a hole.
pub(crate) fn next_data(fd: c_int, from: u64) -> Option<u64> {
    // SAFETY: it takes numbers; the file belongs to the disk, which reads and writes it by offset.
    let at = unsafe { libc::syscall(libc::SYS_lseek, fd, from, libc::SEEK_DATA) };
    at.try_into().ok()
}

fn fail(number: c_int) -> isize {
    // SAFETY: the error number of this thread is always there.
    unsafe { *libc::__errno_location() = number };
    -1
}

/// The power fails after a call was made.
fn crash(returned: isize) -> isize {
    with_disk(|disk| disk.power_loss());
    returned
}

/// A path of the simulated disk.
fn simulated(path: *const c_char) -> Option<&'static Path> {
    DISK.get().filter(|_| !INSIDE.get())?;
    // SAFETY: callers of the C library pass a string that ends with zero and outlives the call.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
    with_disk(|disk| disk.has(path)).filter(|has| *has).map(|_| path)
}

/// A call that only changes directory entries.
fn on_entry(path: *const c_char, call: impl FnOnce() -> isize) -> isize {
    let Some(path) = simulated(path) else { return call() };
    match with_disk(|disk| disk.before_path(Operation::Entry, path)) {
        Some(Interception::Fail(number)) => fail(number),
        Some(Interception::Crash) => crash(call()),
        _ => call(),
    }
}

fn transfer(
    operation: Operation,
    fd: c_int,
    offset: Option<off64_t>,
    length: size_t,
    call: impl Fn(size_t, Option<off64_t>) -> isize,
) -> isize {
    let at = offset.and_then(|offset| offset.try_into().ok());
    match with_disk(|disk| disk.before_transfer(operation, fd, at, length)) {
        Some(Interception::Shorten(part)) => call(part, offset),
        Some(Interception::Fail(number)) => fail(number),
        Some(Interception::Crash) => crash(call(length, offset)),
        Some(Interception::Misdirect(elsewhere)) => {
            let written = call(length, elsewhere.try_into().ok());
            if offset.is_none() && written > 0 {
                // SAFETY: it takes numbers.
                unsafe { libc::syscall(libc::SYS_lseek, fd, written, libc::SEEK_CUR) };
            }
            written
        }
        _ => call(length, offset),
    }
}

fn raw_write(fd: c_int, bytes: *const c_void, length: size_t, offset: Option<off64_t>) -> isize {
    // SAFETY: the caller's bytes are passed on as they came.
    let written = unsafe {
        match offset {
            None => libc::syscall(libc::SYS_write, fd, bytes, length),
            Some(offset) => libc::syscall(libc::SYS_pwrite64, fd, bytes, length, offset),
        }
    };
    written as isize
}

fn raw_read(fd: c_int, bytes: *mut c_void, length: size_t, offset: Option<off64_t>) -> isize {
    // SAFETY: the caller's bytes are passed on as they came.
    let read = unsafe {
        match offset {
            None => libc::syscall(libc::SYS_read, fd, bytes, length),
            Some(offset) => libc::syscall(libc::SYS_pread64, fd, bytes, length, offset),
        }
    };
    read as isize
}

fn open_file(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller's path is passed on as it came.
    let call = || unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) } as c_int;
    let Some(place) = simulated(path) else { return call() };
    let interception = with_disk(|disk| disk.before_path(Operation::Open, place));
    if let Some(Interception::Fail(number)) = interception {
        return fail(number) as c_int;
    }
    let was_there = with_disk(|disk| {
        let was_there = place.exists();
        if was_there && flags & libc::O_TRUNC != 0 {
            disk.before_open_truncated(place);
        }
        was_there
    });
    let fd = call();
    if fd >= 0 {
        let appends = flags & libc::O_APPEND != 0;
        with_disk(|disk| disk.opened(fd, place, was_there.unwrap_or(false), appends));
    }
    if matches!(interception, Some(Interception::Crash)) { crash(fd as isize) as c_int } else { fd }
}

#[unsafe(no_mangle)]
extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_file(path, flags, mode)
}

#[unsafe(no_mangle)]
extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open_file(path, flags, mode)
}

#[unsafe(no_mangle)]
extern "C" fn close(fd: c_int) -> c_int {
    with_disk(|disk| disk.closed(fd));
    // SAFETY: the caller's file is passed on as it came.
    unsafe { libc::syscall(libc::SYS_close, fd) as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, bytes: *const c_void, length: size_t) -> ssize_t {
    transfer(Operation::Write, fd, None, length, |length, offset| raw_write(fd, bytes, length, offset))
}

#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, length: size_t, offset: off64_t) -> ssize_t {
    transfer(Operation::Write, fd, Some(offset), length, |length, offset| raw_write(fd, bytes, length, offset))
}

#[unsafe(no_mangle)]
extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if with_disk(|disk| disk.is_open(fd)) != Some(true) {
        // SAFETY: the caller's parts are passed on as they came.
        return unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) as isize };
    }
    // SAFETY: the caller says how many parts there are.
    let parts = unsafe { std::slice::from_raw_parts(parts, count.try_into().unwrap_or(0)) };
    // A short write is allowed: one part at a time.
    match parts.iter().find(|part| part.iov_len > 0) {
        Some(part) => write(fd, part.iov_base, part.iov_len),
        None => 0,
    }
}

#[unsafe(no_mangle)]
extern "C" fn read(fd: c_int, bytes: *mut c_void, length: size_t) -> ssize_t {
    transfer(Operation::Read, fd, None, length, |length, offset| raw_read(fd, bytes, length, offset))
}

#[unsafe(no_mangle)]
extern "C" fn pread64(fd: c_int, bytes: *mut c_void, length: size_t, offset: off64_t) -> ssize_t {
    transfer(Operation::Read, fd, Some(offset), length, |length, offset| raw_read(fd, bytes, length, offset))
}

fn sync(fd: c_int, call: libc::c_long) -> c_int {
    match with_disk(|disk| disk.sync(fd)) {
        Some(Interception::Return(answer)) => answer as c_int,
        Some(Interception::Fail(number)) => fail(number) as c_int,
        // SAFETY: the caller's file is passed on as it came.
        _ => unsafe { libc::syscall(call, fd) as c_int },
    }
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fsync)
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fdatasync)
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, length: off64_t) -> c_int {
    // SAFETY: the caller's file is passed on as it came.
    let call = || unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) as c_int };
    match with_disk(|disk| disk.before_truncate(fd, length.try_into().unwrap_or(0))) {
        Some(Interception::Fail(number)) => fail(number) as c_int,
        Some(Interception::Crash) => crash(call() as isize) as c_int,
        _ => call(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's paths are passed on as they came.
    let call = || unsafe { libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) as isize };
    on_entry(to, call) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the caller's path is passed on as it came.
    on_entry(path, || unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, path, 0) as isize }) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller's path is passed on as it came.
    on_entry(path, || unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, path, mode) as isize }) as c_int
}
