// Loaded into xrun by faults.py (LD_PRELOAD): fails one call of one kind on the files of a folder.
//   XRUN_FAULT=KIND:N:FOLDER   the N-th call fails, once; 0 only counts
//   XRUN_FAULT_BYTES=BYTES     the smallest allocation that counts; those before the program opens
//                              a file of the folder do not: LibTorch's start cannot fail in order
//   XRUN_FAULT_STATE=FILE      of 4096 bytes, shared by the processes of the program: the calls so
//                              far (u64), then the path whose call failed
// The failed call has no effect; short_write and short_read do half of it. A failed close closes.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { kWrite, kShortWrite, kFsync, kRename, kClose, kRead, kShortRead, kMap, kAllocation, kKinds };
static const char* const kNames[kKinds] = {"write", "short_write", "fsync",
                                           "rename", "close", "read",
                                           "short_read", "map", "allocation"};

struct State {
  atomic_ulong calls;
  char path[4096 - sizeof(atomic_ulong)];
};
static struct State* state;  // null in every other program
static int kind = kKinds;
static unsigned long nth;
static size_t smallest;
static char folder[2048];
static size_t folder_size;

__attribute__((constructor)) static void start(void) {
  const char* fault = getenv("XRUN_FAULT");
  const char* file = getenv("XRUN_FAULT_STATE");
  const char* bytes = getenv("XRUN_FAULT_BYTES");
  char self[4096] = "";
  if (fault == NULL || file == NULL) return;
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return;
  const char* name = strrchr(self, '/');
  if (name == NULL || strcmp(name, "/xrun") != 0) return;
  char wanted[32];
  if (sscanf(fault, "%31[^:]:%lu:%2047s", wanted, &nth, folder) != 3) return;
  for (int i = 0; i < kKinds; ++i) {
    if (strcmp(wanted, kNames[i]) == 0) kind = i;
  }
  smallest = bytes == NULL ? 0 : strtoul(bytes, NULL, 10);
  folder_size = strlen(folder);
  const int fd = open(file, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* const map = mmap(NULL, sizeof(struct State), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (map != MAP_FAILED) state = map;
}

// True if this call is the N-th of the kind. Allocates nothing.
static int due_at(const char* path) {
  if (strncmp(path, folder, folder_size) != 0) return 0;
  if (path[folder_size] != '/' && path[folder_size] != '\0') return 0;
  if (atomic_fetch_add(&state->calls, 1) + 1 != nth) return 0;
  strncpy(state->path, path, sizeof state->path - 1);
  return 1;
}

static int due(int asked, int fd) {
  if (state == NULL || asked != kind) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = '\0';
  return due_at(path);
}

static int fail(int code) {
  errno = code;
  return -1;
}

ssize_t write(int fd, const void* data, size_t size) {
  if (due(kWrite, fd)) return fail(ENOSPC);
  if (size > 1 && due(kShortWrite, fd)) size /= 2;
  return syscall(SYS_write, fd, data, size);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  if (due(kWrite, fd)) return fail(ENOSPC);
  if (size > 1 && due(kShortWrite, fd)) size /= 2;
  return syscall(SYS_pwrite64, fd, data, size, at);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off_t at) { return pwrite(fd, data, size, at); }

ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (due(kWrite, fd)) return fail(ENOSPC);
  if (count > 1 && due(kShortWrite, fd)) count /= 2;
  return syscall(SYS_writev, fd, parts, count);
}

int ftruncate(int fd, off_t size) {
  if (due(kWrite, fd)) return fail(ENOSPC);
  return (int)syscall(SYS_ftruncate, fd, size);
}

int truncate(const char* path, off_t size) {
  if (state != NULL && kind == kWrite && due_at(path)) return fail(EIO);
  return (int)syscall(SYS_truncate, path, size);
}

int fsync(int fd) { return due(kFsync, fd) ? fail(EIO) : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return due(kFsync, fd) ? fail(EIO) : (int)syscall(SYS_fdatasync, fd); }

int renameat2(int from_dir, const char* from, int to_dir, const char* to, unsigned flags) {
  if (state != NULL && kind == kRename) {
    char path[4096] = "";
    if (to[0] != '/' && getcwd(path, sizeof path) == NULL) return -1;
    const size_t size = strlen(path);
    snprintf(path + size, sizeof path - size, "%s%s", to[0] == '/' ? "" : "/", to);
    if (due_at(path)) return fail(ENOSPC);
  }
  return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}
int rename(const char* from, const char* to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

// Fails only for files open for writing: closing any other loses nothing.
int close(int fd) {
  const int flags = state == NULL || kind != kClose ? 0 : fcntl(fd, F_GETFL);
  const int failed = (flags & O_ACCMODE) != O_RDONLY && flags != -1 && due(kClose, fd);
  const int result = (int)syscall(SYS_close, fd);
  return failed ? fail(EIO) : result;
}

ssize_t read(int fd, void* data, size_t size) {
  if (due(kRead, fd)) return fail(EIO);
  if (size > 1 && due(kShortRead, fd)) size /= 2;
  return syscall(SYS_read, fd, data, size);
}

ssize_t pread(int fd, void* data, size_t size, off_t at) {
  if (due(kRead, fd)) return fail(EIO);
  if (size > 1 && due(kShortRead, fd)) size /= 2;
  return syscall(SYS_pread64, fd, data, size, at);
}
ssize_t pread64(int fd, void* data, size_t size, off_t at) { return pread(fd, data, size, at); }

// The C library's own reads do not come through read() above.
size_t fread(void* data, size_t size, size_t count, FILE* file) {
  static size_t (*real)(void*, size_t, size_t, FILE*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "fread");
  if (!due(kRead, fileno(file))) return real(data, size, count, file);
  file->_flags |= _IO_ERR_SEEN;
  errno = EIO;
  return 0;
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0 && due(kMap, fd)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return (void*)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
void* mmap64(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  return mmap(at, size, protection, flags, fd, offset);
}

// ---- allocations, of C++ and LibTorch too: theirs end in these

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static atomic_int opened;

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (state != NULL && (path[0] != '/' || strncmp(path, folder, folder_size) == 0)) opened = 1;
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

static int no_memory(size_t size) {
  if (state == NULL || kind != kAllocation || size < smallest || !opened) return 0;
  if (atomic_fetch_add(&state->calls, 1) + 1 != nth) return 0;
  snprintf(state->path, sizeof state->path, "%zu bytes", size);
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) { return no_memory(size) ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return no_memory(count * size) ? NULL : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) { return no_memory(size) ? NULL : __libc_realloc(old, size); }
void* memalign(size_t alignment, size_t size) {
  return no_memory(size) ? NULL : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  if (no_memory(size)) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == NULL ? ENOMEM : 0;
}
