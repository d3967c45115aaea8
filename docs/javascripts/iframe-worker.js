// Search without a server: browsers refuse workers on pages that are opened from disk, so the script of a worker runs in
// a hidden frame. Nothing is fetched from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      const script = document.createElement("script");
      script.src = new URL(url, location.href).href;
      frame.srcdoc = `<script>postMessage = data => parent.postMessage(data, "*")</` + `script>${script.outerHTML}`;
      this.frame = new Promise(resolve => { frame.onload = () => resolve(frame.contentWindow); });
      addEventListener("message", event => {
        if (event.source === frame.contentWindow)
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      document.body.append(frame);
    }
    postMessage(data) {
      // The function of the page: that of the frame is the worker's own, which sends to the page.
      this.frame.then(target => window.postMessage.call(target, data, "*"));
    }
  };
}
