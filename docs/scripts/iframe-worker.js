// Pages opened from a disk may not start a worker, and the search runs in one. Here it runs in a
// hidden frame instead. MkDocs Material would fetch such a script from another host, which a reader
// without a network cannot do; it recognises this one by the name of the file.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc =
        "<script>postMessage = (data) =>" +
        ' frameElement.dispatchEvent(new MessageEvent("message", { data }))</script>' +
        `<script src="${new URL(address, location).href}"></script>`;
      this.loaded = new Promise((resolve) => this.frame.addEventListener("load", resolve));
      this.frame.addEventListener("message", ({ data }) =>
        this.dispatchEvent(new MessageEvent("message", { data })));
      document.documentElement.append(this.frame);
    }

    postMessage(data) {
      this.loaded.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
