// A browser starts no Worker for a page that was opened from a disk. There, a hidden
// frame runs the script of the search, and stands in for its Worker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = (this.inner = frame.contentWindow);
      inner.document.open();
      inner.document.write("<!doctype html><title>search</title><body></body>");
      inner.document.close();
      inner.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = url;
      this.loaded = new Promise((done) => (script.onload = done));
      inner.document.body.append(script);
    }
    postMessage(data) {
      const { inner } = this;
      this.loaded.then(() =>
        inner.dispatchEvent(new inner.MessageEvent("message", { data })),
      );
    }
  };
  window.Worker = window.IFrameWorker;
}
