// Panels in which the pages of the course run their kernels, in the emulator, compiled to WebAssembly (learn/browser).
// `emulator-module.js` holds the module as text, because pages that are opened as files may not fetch others.
"use strict";

const Emulator = (() => {
    const folder = typeof document === "undefined" ? "" : document.currentScript.src.replace(/[^/]*$/, "");
    let module = null;

    // The module that the text holds: gzip in base64. Null if the book was built without it.
    async function decode(text) {
        if (!text) return null;
        const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
        const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
        return WebAssembly.compile(await new Response(stream).arrayBuffer());
    }

    function load() {
        module ??= new Promise((done, fail) => {
            const script = document.createElement("script");
            script.src = folder + "emulator-module.js";
            script.onload = () => done(decode(globalThis.emulatorModule));
            script.onerror = () => fail(new Error("emulator-module.js is missing"));
            document.head.append(script);
        });
        return module;
    }

    // Runs the request in an instance of its own: after a fault, suspended threads remain in it.
    async function ask(module, request) {
        const text = (address, bytes) => new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, address, bytes));
        // The coroutines of the emulator's threads. A fiber is an address: of Asyncify's two words, and the stack's pointer.
        const fiber = address => new Uint32Array(wasm.memory.buffer, address, 3);
        const stack = {
            resume(address, begun) {
                const before = wasm.__stack_pointer.value;
                wasm.__stack_pointer.value = fiber(address)[2];
                if (begun) wasm.asyncify_start_rewind(address);
                wasm.warpkov_run(address);
                const suspended = wasm.asyncify_get_state() === 1;
                if (suspended) wasm.asyncify_stop_unwind();
                wasm.__stack_pointer.value = before;
                return suspended ? 1 : 0;
            },
            suspend(address) {
                if (wasm.asyncify_get_state() === 2) return wasm.asyncify_stop_rewind();
                fiber(address)[2] = wasm.__stack_pointer.value;
                wasm.asyncify_start_unwind(address);
            },
        };
        const page = {
            fail(address, bytes) {
                throw new Error(text(address, bytes));
            },
        };
        const wasm = (await WebAssembly.instantiate(module, { stack, page })).exports;
        const bytes = new TextEncoder().encode(JSON.stringify(request));
        // The memory may grow in each call, and then has another buffer.
        const address = wasm.request(bytes.length);
        new Uint8Array(wasm.memory.buffer, address, bytes.length).set(bytes);
        try {
            const length = wasm.run();
            return JSON.parse(text(wasm.answer(), length));
        } catch (error) {
            return { fault: String(error.message), kernels: [] };
        }
    }

    return { decode, load, ask };
})();
