# Gives each text of BEGINNINGS to Debian's cloud-init as the user data of a first boot, and prints for each whether cloud-init acts on it:
# whether the cloud-config contains "marker", or a script or boothook ran and made a file in SAID.
import json
import os
import shutil
import subprocess
import sys

from cloudinit import sources, stages

WORK, SAID = "/tmp/judge", "/tmp/judge-said"


def acts(text):
    for place in WORK, SAID:
        shutil.rmtree(place, ignore_errors=True)
    os.makedirs(WORK)
    os.makedirs(SAID)
    with open("/etc/cloud/cloud.cfg.d/99_judge.cfg", "w") as f:
        paths = {"cloud_dir": WORK + "/cloud", "run_dir": WORK + "/run"}
        json.dump({"datasource_list": ["VMware"], "system_info": {"paths": paths}}, f)
    os.environ["VMX_GUESTINFO"] = "1"
    os.environ["VMX_GUESTINFO_METADATA"] = json.dumps({"instance-id": "i", "local-hostname": "web-0", "ordinal": 0})
    os.environ["VMX_GUESTINFO_USERDATA"] = text
    init = stages.Init(ds_deps=[sources.DEP_FILESYSTEM])
    init.read_cfg()
    init.initialize()
    init.fetch(existing="check")
    init.instancify()
    init.setup_datasource()
    init.update()
    init.consume_data()
    with open(init.paths.get_ipath_cur("cloud_config")) as f:
        if "marker" in f.read():
            return True
    scripts = init.paths.get_ipath_cur("scripts")
    for name in os.listdir(scripts) if os.path.isdir(scripts) else []:
        try:
            subprocess.run([os.path.join(scripts, name)], check=True)
        except OSError:  # the kernel finds no interpreter, so cloud-init couldn't run the script either
            continue
    return bool(os.listdir(SAID))


out = os.dup(1)
os.dup2(2, 1)  # the output of boothooks must not mix with the result
json.dump([acts(text) for text in json.loads(os.environ["BEGINNINGS"])], os.fdopen(out, "w"))
