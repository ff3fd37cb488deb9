#!/bin/sh
# An sshd of this user on the loopback, with keys of its own, in the foreground until it is killed:
#   sshd.sh SSHD FOLDER PORT    FOLDER gets the keys and `ssh`, a client that knows this server. Exit 77: not possible here
# As root sshd wants a user and a folder of its own. They are mounted for this process alone, so nothing changes on the machine.
set -eu
sshd=$1 folder=$2 port=$3
if [ "$(id -u)" = 0 ] && [ "${4:-}" != inside ]; then
    unshare --mount true 2> /dev/null || exit 77 # a container that may not mount
    exec unshare --mount --propagation private "$0" "$1" "$2" "$3" inside
fi
if [ "$(id -u)" = 0 ]; then
    { cat /etc/passwd; echo "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin"; } > "$folder/passwd"
    mount --bind "$folder/passwd" /etc/passwd
    mkdir -p "$folder/run/sshd"
    [ -d /run/sshd ] || mount --bind "$folder/run" /run
fi
[ -e "$folder/host_key" ] || ssh-keygen -q -t ed25519 -N '' -f "$folder/host_key"
[ -e "$folder/user_key" ] || ssh-keygen -q -t ed25519 -N '' -f "$folder/user_key"
cp "$folder/user_key.pub" "$folder/authorized"
cat > "$folder/sshd_config" <<END
ListenAddress 127.0.0.1
Port $port
HostKey $folder/host_key
AuthorizedKeysFile $folder/authorized
PidFile $folder/pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
END
cat > "$folder/ssh_config" <<END
Host *
    IdentityFile $folder/user_key
    IdentitiesOnly yes
    UserKnownHostsFile $folder/known
    StrictHostKeyChecking accept-new
    PasswordAuthentication no
END
printf '#!/bin/sh\nexec ssh -F %s "$@"\n' "$folder/ssh_config" > "$folder/ssh"
chmod +x "$folder/ssh"
"$sshd" -t -f "$folder/sshd_config"
exec "$sshd" -D -E "$folder/sshd.log" -f "$folder/sshd_config"
