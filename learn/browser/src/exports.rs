//! The interface of the WebAssembly module, which `book/emulator.js` calls: it asks for memory, writes a request there, and reads the
//! answer. Numbers and addresses are all that passes.

use std::cell::RefCell;

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Throws an exception with the text: nothing in the module runs after a panic.
    fn fail(text: *const u8, bytes: usize) -> !;
}

thread_local! {
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Memory for a request of so many bytes. Valid until the next call of the module.
#[unsafe(no_mangle)]
extern "C" fn request(bytes: usize) -> *mut u8 {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        // SAFETY: the text is there during the call, which only reads it.
        unsafe { fail(text.as_ptr(), text.len()) }
    }));
    TEXT.with_borrow_mut(|text| {
        text.clear();
        text.resize(bytes, 0);
        text.as_mut_ptr()
    })
}

/// Answers the request. Returns the bytes of the answer, which lies where [`answer`] says.
#[unsafe(no_mangle)]
extern "C" fn run() -> usize {
    let request = TEXT.take();
    let answer = crate::answer(&String::from_utf8_lossy(&request));
    TEXT.set(answer.into_bytes());
    TEXT.with_borrow(Vec::len)
}

/// Where the answer lies, until the next request.
#[unsafe(no_mangle)]
extern "C" fn answer() -> *const u8 {
    TEXT.with_borrow(|text| text.as_ptr())
}
