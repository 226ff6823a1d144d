# bash completion for leader-run. Installed as share/bash-completion/completions/leader-run.

_leader_run() {
    local current=${COMP_WORDS[COMP_CWORD]}
    local previous=${COMP_WORDS[COMP_CWORD - 1]}
    local options="--file --redis --name --k8s --kubeconfig --context --k8s-server --events --label-pod --pg --table --etcd --user --plain-http --store --quorum --value --mode --sentinels --sentinel-name --sentinel-password-file --password-file
        --prefix --redis-key --tls --tls-ca --tls-cert --tls-key --tls-name --no-wait --wait --hold --once-per --once --http --silence --on-leader
        --on-follower --resign --id --lease --deadline --grace --retry --renew-retries --pid-namespace --verbose --status --json --watch --explain
        --help --version"
    local word
    local i
    COMPREPLY=()

    # After -- or the first word that is neither an option nor a value comes the command.
    i=1
    while [ "$i" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[i]}
        case $word in
        --)
            _leader_run_command $((i + 1)) && return
            return
            ;;
        --no-wait | -n | --tls | --events | --label-pod | --plain-http | --once | --verbose | --status | --json | --watch | --explain | --pid-namespace | --help | --version | --*=*) ;;
        --*) i=$((i + 1)) ;;
        *)
            _leader_run_command "$i"
            return
            ;;
        esac
        i=$((i + 1))
    done

    case $previous in
    --file | --mode | --password-file | --sentinel-password-file | --tls-ca | --tls-cert | --tls-key | --kubeconfig)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --store)
        mapfile -t COMPREPLY < <(compgen -W "file:/// redis:// rediss:// unix:// postgres:// etcd:// etcds:// k8s://" -- "$current")
        return
        ;;
    --redis)
        mapfile -t COMPREPLY < <(compgen -W "env redis:// rediss:// unix://" -- "$current")
        return
        ;;
    --resign)
        mapfile -t COMPREPLY < <(compgen -W "$(pgrep -x leader-run 2>/dev/null)" -- "$current")
        return
        ;;
    esac
    case $current in
    -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current") ;;
    *) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
    esac
}

_leader_run_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    else
        mapfile -t COMPREPLY < <(compgen -c -f -- "${COMP_WORDS[COMP_CWORD]}")
    fi
}

complete -F _leader_run leader-run
