import { outputPlugin } from "./output.js";
import { sidebarPlugin } from "./sidebar.js";
import { tapesPlugin } from "./tapes.js";
import { viewerPlugin } from "./viewer.js";

export default [tapesPlugin, viewerPlugin, sidebarPlugin, outputPlugin];
