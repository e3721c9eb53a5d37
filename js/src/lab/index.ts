import { automaticPlugin } from "./autoDiagnose.js";
import { marksPlugin } from "./cellMarks.js";
import { commandsPlugin } from "./commands.js";
import { launcherPlugin } from "./launcher.js";
import { outputPlugin } from "./output.js";
import { settingsPlugin } from "./settings.js";
import { sidebarPlugin } from "./sidebar.js";
import { tapesPlugin } from "./tapeSessions.js";
import { toolbarPlugin } from "./toolbar.js";
import { traceFilePlugin } from "./traceFile.js";
import { viewerPlugin } from "./viewer.js";

export default [
  settingsPlugin,
  tapesPlugin,
  viewerPlugin,
  commandsPlugin,
  sidebarPlugin,
  toolbarPlugin,
  launcherPlugin,
  marksPlugin,
  automaticPlugin,
  traceFilePlugin,
  outputPlugin,
];
