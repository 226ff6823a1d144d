// leader.h from Rust, through libleader (`make lib`): rustc leader.rs -L build/lib -l dylib=leader
//
//     leader STORE NAME [SECONDS]
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::time::{Duration, Instant};

#[repr(C)]
struct LeaderT {
    _private: [u8; 0],
}

#[link(name = "leader")]
extern "C" {
    fn leader_open(store: *const c_char, identity: *const c_char, lease_ms: i64, hooks: *const c_void, error: *mut c_char, cap: usize) -> *mut LeaderT;
    fn leader_free(me: *mut LeaderT, timeout_ms: i64) -> c_int;
    fn leader_tick(me: *mut LeaderT) -> c_int;
    fn leader_sleep(me: *mut LeaderT, max_ms: c_int);
    fn leader_is_leader(me: *const LeaderT) -> bool;
    fn leader_token(me: *const LeaderT) -> u64;
}

/// An election. It stays on the thread that made it: the pointer is not Send.
pub struct Leader {
    me: *mut LeaderT,
}

impl Leader {
    pub fn open(store: &str, identity: &str, lease: Duration) -> Result<Leader, String> {
        let store = CString::new(store).map_err(|e| e.to_string())?;
        let identity = CString::new(identity).map_err(|e| e.to_string())?;
        let mut error = [0 as c_char; 512];
        let lease_ms = lease.as_millis() as i64;
        let me = unsafe { leader_open(store.as_ptr(), identity.as_ptr(), lease_ms, std::ptr::null(), error.as_mut_ptr(), error.len()) };
        if me.is_null() {
            return Err(unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy().into_owned());
        }
        Ok(Leader { me })
    }

    /// Never blocks; wants to be called again within the answer.
    pub fn tick(&mut self) -> Duration {
        Duration::from_millis(unsafe { leader_tick(self.me) } as u64)
    }

    pub fn sleep(&mut self, at_most: Duration) {
        unsafe { leader_sleep(self.me, at_most.as_millis() as c_int) }
    }

    /// The token of the present term, while it lasts.
    pub fn token(&self) -> Option<u64> {
        let token = unsafe { leader_token(self.me) };
        let leading = unsafe { leader_is_leader(self.me) };
        (leading && token != 0).then_some(token)
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        unsafe { leader_free(self.me, 1000) };
    }
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let store = args.get(1).map_or("file:///tmp/job.lease", |s| s);
    let name = args.get(2).map_or("node-a", |s| s);
    let seconds = args.get(3).and_then(|s| s.parse().ok()).unwrap_or(60.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut me = Leader::open(store, name, Duration::from_secs(3))?;
    let mut led = None;
    while Instant::now() < end {
        me.tick();
        if me.token() != led {
            led = me.token();
            match led {
                Some(token) => println!("leading with token {token}"),
                None => println!("not leading"),
            }
        }
        me.sleep(Duration::from_millis(100));
    }
    Ok(())
}
