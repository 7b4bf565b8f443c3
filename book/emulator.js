// Panels in which the pages of the course run their kernels, in the emulator, compiled to WebAssembly (learn/browser).
// `emulator-module.js` holds the module as text, because pages that are opened as files may not fetch others.
"use strict";

// In a block, because mdBook's scripts have names of their own.
{

const Emulator = globalThis.Emulator = (() => {
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

// An SVG element, or with `svg` false an HTML element, with attributes and children.
function make(name, attributes = {}, children = [], svg = true) {
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
}

const html = (name, attributes, children) => make(name, attributes, children, false);

const isShared = request => request.operation.startsWith("Shared");
const isGlobal = request => ["Load", "Store", "Atomic"].includes(request.operation);

const LEFT = 24, TOP = 16, ROW = 9, WIDTH = 640;

// The rows of 32 lanes, and columns with a label each.
function grid(columns, label) {
    const width = (WIDTH - LEFT) / columns.length, step = Math.ceil(columns.length / 16);
    const drawing = [];
    for (let lane = 0; lane < 32; lane++) {
        const y = TOP + ROW * lane;
        if (lane % 4 === 0) drawing.push(make("text", { x: LEFT - 4, y: y + 8, "text-anchor": "end" }, [`${lane}`]));
        drawing.push(make("rect", { x: LEFT, y, width: WIDTH - LEFT, height: ROW - 1, class: "row" }));
    }
    columns.forEach((column, k) => {
        const x = LEFT + width * k;
        if (k % step === 0) drawing.push(make("text", { x: x + 1, y: TOP - 5 }, [label(column)]));
        // Columns that are not neighbours.
        const gap = k > 0 && column !== columns[k - 1] + 1;
        drawing.push(make("line", { x1: x, x2: x, y1: TOP - 2, y2: TOP + 32 * ROW, class: gap ? "gap" : "edge" }));
    });
    return drawing;
}

function svg(drawing, title) {
    const box = { viewBox: `0 0 ${WIDTH} ${TOP + 32 * ROW + 2}`, role: "img", "aria-label": title };
    return make("svg", box, drawing);
}

// Lanes × sectors of 32 bytes of a request to global memory.
function drawSectors(request) {
    const touched = new Set();
    for (const [, address] of request.at) {
        for (let sector = Math.floor(address / 32); 32 * sector < address + request.width; sector++) touched.add(sector);
    }
    const columns = [...touched].sort((a, b) => a - b), place = new Map(columns.map((sector, k) => [sector, k]));
    const width = (WIDTH - LEFT) / columns.length, drawing = grid(columns, sector => `${sector}`);
    for (const [lane, address] of request.at) {
        const x = LEFT + width * (place.get(Math.floor(address / 32)) + (address % 32) / 32);
        const box = { x, y: TOP + ROW * lane, width: Math.max(1.5, width * request.width / 32), height: ROW - 1, class: request.operation };
        drawing.push(make("rect", box, [make("title", {}, [`lane ${lane}: byte ${address}, sector ${Math.floor(address / 32)}`])]));
    }
    return svg(drawing, `lanes and sectors of a ${request.name}`);
}

// Lanes × banks of a request to shared memory. A word is in conflict if another one of its bank is accessed in the same pass.
function drawBanks(request) {
    const columns = [...Array(32).keys()], width = (WIDTH - LEFT) / 32, drawing = grid(columns, bank => `${bank}`);
    const together = 32 / Math.max(1, Math.floor(request.width / 4)), words = new Map(), boxes = [];
    for (const [lane, address] of request.at) {
        for (let word = Math.floor(address / 4); 4 * word < address + request.width; word++) {
            const key = `${Math.floor(lane / together)} ${word % 32}`;
            words.set(key, (words.get(key) ?? new Set()).add(word));
            boxes.push([lane, word, key]);
        }
    }
    for (const [lane, word, key] of boxes) {
        const kind = words.get(key).size > 1 ? "conflict" : request.operation;
        const box = { x: LEFT + width * (word % 32) + 0.5, y: TOP + ROW * lane, width: width - 1, height: ROW - 1, class: kind };
        drawing.push(make("rect", box, [make("title", {}, [`lane ${lane}: word ${word}, bank ${word % 32}`])]));
    }
    return svg(drawing, `lanes and banks of a ${request.name}`);
}

// Lanes × requests: which lanes take part in each, and the chosen one.
function drawRequests(requests, chosen) {
    const drawing = grid(requests.map((_, k) => k), k => `${k + 1}`), width = (WIDTH - LEFT) / requests.length;
    requests.forEach((request, k) => {
        const title = `${request.name}, ${request.place}`;
        for (const [lane] of request.at) {
            const box = { x: LEFT + width * k, y: TOP + ROW * lane, width: Math.max(1, width - 1), height: ROW - 1, class: request.operation };
            drawing.push(make("rect", box, [make("title", {}, [title])]));
        }
    });
    drawing.push(make("rect", { x: LEFT + width * chosen, y: TOP - 2, width, height: 32 * ROW + 2, class: "chosen" }));
    return svg(drawing, "lanes and requests of the first warp");
}

function drawTotals(kernel) {
    const head = ["operation", "requests", "lanes", "sectors", "bank conflicts"];
    const swatch = operation => make("svg", { viewBox: "0 0 1 1", class: "swatch" }, [make("rect", { width: 1, height: 1, class: operation })]);
    const row = total => [html("span", {}, [swatch(total.operation), total.name]), total.requests, total.lanes, isGlobal(total) ? total.sectors : "", isShared(total) ? total.conflicts : ""];
    const line = (cells, kind) => html("tr", {}, cells.map(cell => html(kind, {}, [cell])));
    const table = html("table", {}, [html("thead", {}, [line(head, "th")]), html("tbody", {}, kernel.totals.map(total => line(row(total), "td")))]);
    return html("div", { class: "table-wrapper" }, [table]);
}

class Panel {
    // What is set; the drawing shows request number `request` of `kernel`, at first one to memory.
    settings = { part: 0, size: null, threads: null, kernel: null, stride: 1, offset: 0, request: null };

    constructor(element) {
        this.element = element;
        this.controls = html("div", { class: "controls" });
        this.result = html("div", { class: "result", "aria-live": "polite" });
        element.replaceChildren(this.controls, this.result);
    }

    say(text) {
        this.result.replaceChildren(html("p", {}, [text]));
    }

    async start() {
        this.say("Loading the emulator …");
        try {
            this.module = await Emulator.load();
            if (!this.module) {
                return this.say("A panel is here that runs this chapter's kernels. This copy of the book was built without it: run `make browser`, then `make book`.");
            }
            this.parts = (await this.ask({})).parts;
            this.choosePart(0);
        } catch (error) {
            this.say(`The emulator does not start in this browser: ${error.message}`);
        }
    }

    ask(request) {
        return Emulator.ask(this.module, { chapter: this.element.dataset.chapter, ...request });
    }

    choosePart(part) {
        Object.assign(this.settings, { part, size: this.parts[part].size, threads: null, kernel: null, stride: 1, offset: 0, request: null });
        return this.run();
    }

    // Runs what is set. A later setting makes an earlier answer void.
    async run() {
        const { part, size, threads, kernel, stride, offset } = this.settings;
        const request = { part, size, stride, offset, ...(threads ? { kernel, threads } : {}) };
        const turn = (this.turn = Symbol("turn"));
        this.element.dataset.state = "running";
        await new Promise(next => setTimeout(next));
        if (this.turn !== turn) return;
        this.answer = await this.ask(request);
        if (this.turn !== turn) return;
        this.show();
        this.element.dataset.state = "done";
    }

    get kernel() {
        const { kernels } = this.answer;
        return kernels.find(kernel => kernel.name === this.settings.kernel) ?? kernels[0];
    }

    // The number of the request that is drawn.
    get request() {
        const { requests } = this.kernel, first = requests.findIndex(request => isGlobal(request) || isShared(request));
        return Math.min(this.settings.request ?? Math.max(0, first), requests.length - 1);
    }

    show() {
        const { kernel, settings } = this;
        settings.kernel ??= kernel?.name ?? null;
        // The threads of a block in the launch itself.
        if (kernel && !settings.threads) this.own = kernel.threads;
        this.showControls();
        this.draw();
    }

    draw() {
        const { kernel } = this, { fault } = this.answer, shown = [];
        if (fault) shown.push(html("pre", { class: "fault" }, [fault]));
        if (kernel) {
            const { launches, blocks, threads, branches, busiest, shared } = kernel;
            const facts = [`${launches} launches, ${blocks} blocks of ${threads} threads`, `${shared} bytes of shared memory`];
            facts.push(`${branches} divergent branches`, `the busiest warp makes ${busiest} requests to memory`);
            shown.push(html("p", {}, [`${kernel.name}: ${facts.join(", ")}.`]), drawTotals(kernel));
        }
        const request = kernel?.requests[this.request];
        if (request) {
            const counts = isShared(request) ? `, ${request.conflicts} bank conflicts` : isGlobal(request) ? `, ${request.sectors} sectors` : "";
            const text = `The first warp, request ${this.request + 1}: ${request.name} at ${request.place}, ${request.lanes} lanes${counts}.`;
            shown.push(html("p", { class: "request" }, [text]));
            if (isGlobal(request)) shown.push(drawSectors(request));
            if (isShared(request)) shown.push(drawBanks(request));
            shown.push(html("p", {}, ["Its lanes (down) in all requests (to the right):"]), drawRequests(kernel.requests, this.request));
        } else if (kernel) {
            shown.push(html("p", {}, ["No block ended, so there are no accesses to draw."]));
        }
        this.result.replaceChildren(...shown);
    }

    showControls() {
        const { settings, kernel, answer } = this, part = this.parts[settings.part], controls = [];
        const focused = document.activeElement?.dataset?.setting;
        const choose = (name, options, value, set) => {
            const items = options.map(([key, text]) => html("option", key === value ? { value: key, selected: "" } : { value: key }, [text]));
            const select = html("select", { "data-setting": name }, items);
            select.addEventListener("change", () => set(select.value));
            controls.push(html("label", {}, [html("span", {}, [name]), select]));
        };
        // A slider over `values`. While it moves, its number follows; what takes long waits for its rest.
        const slide = (name, values, value, set, event = "change") => {
            const attributes = { type: "range", min: 0, max: values.length - 1, value: Math.max(0, values.indexOf(value)), "data-setting": name };
            const [input, output] = [html("input", attributes), html("output", {}, [`${value}`])];
            input.addEventListener("input", () => (output.textContent = values[input.value]));
            input.addEventListener(event, () => set(values[input.value]));
            controls.push(html("label", {}, [html("span", {}, [name]), input, output]));
        };
        const run = change => {
            Object.assign(settings, change);
            return this.run();
        };
        choose("what", this.parts.map((part, k) => [`${k}`, part.name]), `${settings.part}`, value => this.choosePart(Number(value)));
        if (answer.kernels.length > 1) {
            const names = answer.kernels.map(kernel => [kernel.name, kernel.name]);
            choose("kernel", names, settings.kernel, value => run({ kernel: value, threads: null, request: null }));
        }
        if (part.sizes.length > 1) slide("size", part.sizes, settings.size, size => run({ size }));
        const { own } = this;
        if (kernel && !part.fixed) {
            const blocks = [...new Set([32, 64, 128, 256, 512, 1024, own])].sort((a, b) => a - b);
            slide("threads of a block", blocks, settings.threads ?? own, threads => run({ threads: threads === own ? null : threads, kernel: kernel.name }));
        }
        const numbers = (from, to) => [...Array(to - from).keys()].map(k => from + k);
        if (part.strides) slide("stride", numbers(1, part.strides + 1), settings.stride, stride => run({ stride }));
        if (part.offsets) slide("offset", numbers(0, part.offsets), settings.offset, offset => run({ offset }));
        if (kernel?.requests.length > 1) {
            slide("request of the first warp", numbers(1, kernel.requests.length + 1), this.request + 1, request => {
                settings.request = request - 1;
                this.draw();
            }, "input");
        }
        this.controls.replaceChildren(...controls);
        if (focused) this.controls.querySelector(`[data-setting="${focused}"]`)?.focus();
    }
}

if (typeof document !== "undefined") {
    document.addEventListener("DOMContentLoaded", () => {
        const panels = [...document.querySelectorAll("div.emulator")];
        const near = new IntersectionObserver(entries => {
            for (const entry of entries.filter(entry => entry.isIntersecting)) {
                near.unobserve(entry.target);
                entry.target.panel.start();
            }
        }, { rootMargin: "300px" });
        for (const panel of panels) {
            panel.panel = new Panel(panel);
            near.observe(panel);
        }
    });
}

}
