// Browsers refuse workers to pages opened from the disk, and the search of these pages is one.
// There its script runs in a hidden frame instead, and messages are passed on as events.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      this.waiting = [];
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      // The next script waits for this promise where a worker would wait for the script itself.
      inside.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => load(inside, next)), Promise.resolve());
      load(inside, url).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (this.waiting) {
        this.waiting.push(data);
      } else {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      }
    }
  };
}

function load(inside, url) {
  return new Promise((resolve, reject) => {
    const script = inside.document.createElement("script");
    script.src = url;
    script.onload = resolve;
    script.onerror = reject;
    inside.document.body.append(script);
  });
}
